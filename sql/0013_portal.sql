-- pgcourier schema, version 13: links with which the owner of a receiver looks after it (docs/portal.md).

-- A link is a random token of 256 bits, which the customer has. Here is its hash alone: who reads this table,
-- or a dump of it, cannot use the link. That it is random and unknown is all that it takes: it cannot be forged,
-- it ends by itself, and to withdraw it is to delete the row.
CREATE TABLE courier.receiver_link (
  id         bigint      GENERATED ALWAYS AS IDENTITY,
  receiver   integer     NOT NULL,
  token_hash bytea       NOT NULL,
  can_manage boolean     NOT NULL DEFAULT false,
  expires_at timestamptz NOT NULL,
  created_at timestamptz NOT NULL DEFAULT clock_timestamp(),

  CONSTRAINT receiver_link_pkey PRIMARY KEY (id),
  CONSTRAINT receiver_link_token_hash_key UNIQUE (token_hash),
  CONSTRAINT receiver_link_receiver_fkey FOREIGN KEY (receiver) REFERENCES courier.receiver (id) ON DELETE CASCADE,
  CONSTRAINT token_hash_must_be_of_32_bytes CHECK (octet_length(token_hash) = 32),
  CONSTRAINT link_must_end_within_30_days CHECK (expires_at <= created_at + interval '30 days 1 minute')
);
CREATE INDEX receiver_link_receiver_idx ON courier.receiver_link (receiver);

COMMENT ON TABLE courier.receiver_link IS 'Links to the portal; see pgcourier receiver link';
COMMENT ON COLUMN courier.receiver_link.receiver IS 'courier.receiver.id';
COMMENT ON COLUMN courier.receiver_link.token_hash IS 'SHA-256 of the token, which is stored nowhere';
COMMENT ON COLUMN courier.receiver_link.can_manage IS 'It may also change the receiver, and send events again';

-- The link of a token, by the hash of that, and the receiver that it leads to; no row if there is none, or it has
-- expired. Each statement of the portal begins with this, and goes on with what it returns: so nothing that a
-- client says decides whose receiver it is.
CREATE FUNCTION courier.find_link(
  token_hash text, OUT id bigint, OUT can_manage boolean, OUT expires_at timestamptz,
  OUT receiver integer, OUT name text, OUT sink text
) RETURNS SETOF record
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT l.id, l.can_manage, l.expires_at, r.id, r.name, r.sink
  FROM courier.receiver_link AS l JOIN courier.receiver AS r ON r.id = l.receiver
  WHERE l.token_hash = decode(find_link.token_hash, 'hex') AND l.expires_at > clock_timestamp()
$$;
COMMENT ON FUNCTION courier.find_link(text) IS 'The link with this hash of its token, and its receiver';

-- Which of these events a receiver takes, as far as the outbox has them: by the patterns and filters of its sink
-- and its own, and the headers that the sink asks for.
CREATE FUNCTION courier.events_taken(receiver integer, outbox_ids bigint[]) RETURNS SETOF bigint
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
  WITH r AS MATERIALIZED (
    SELECT e.topics, e.types, e.start, e.start_snapshot, s.topics AS sink_topics, s.types AS sink_types,
           s.settings -> 'match_headers' AS match_headers,
           ARRAY(SELECT f
                 FROM unnest(ARRAY[nullif(s.settings ->> 'filter', '')::jsonpath, e.filter]) AS f
                 WHERE f IS NOT NULL) AS filters
    FROM courier.receiver AS e JOIN courier.sink AS s ON s.name = e.sink
    WHERE e.id = events_taken.receiver
  ), o AS MATERIALIZED (
    SELECT row_number() OVER () AS nth, each.id, each.topic::text, each.type::text, each.txid
    FROM r, courier.outbox AS each
    WHERE each.id = ANY (outbox_ids)
      AND (r.match_headers IS NULL OR courier.headers_match(each.headers, r.match_headers))
  ), pairs AS (
    SELECT coalesce(array_agg(o.topic ORDER BY nth), '{}') AS topics,
           coalesce(array_agg(o.type ORDER BY nth), '{}') AS types FROM o
  ), takes AS MATERIALIZED (
    SELECT courier.patterns_take(r.sink_topics, r.sink_types, false, pairs.topics, pairs.types) AS by_sink,
           courier.patterns_take(r.topics, r.types, true, pairs.topics, pairs.types) AS by_lane
    FROM r, pairs
  )
  SELECT o.id
  FROM o CROSS JOIN r CROSS JOIN takes
  WHERE by_sink[nth] AND by_lane[nth]
    AND NOT (r.start = 'now' AND pg_visible_in_snapshot(o.txid, r.start_snapshot))
    AND CASE WHEN cardinality(r.filters) = 0 THEN true ELSE (
          SELECT cardinality(courier.true_filters(e.payload, r.filters)) = cardinality(r.filters)
          FROM courier.outbox AS e WHERE e.id = o.id) END
$$;
COMMENT ON FUNCTION courier.events_taken(integer, bigint[]) IS 'Which of some events a receiver takes';

-- What an attempt ended with, for the receiver's owner: what his server answered, in its words. Our own words
-- may name a proxy or a network of ours, so they come as one of a few.
CREATE FUNCTION courier.words_for_owner(words text) RETURNS text
LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT CASE
    WHEN words IS NULL OR words = '' THEN NULL
    WHEN words ~ '^[1-9][0-9]{2}( |$)' AND words !~ '^407'
      THEN regexp_replace(words, '; redirects are not followed.*$', '; redirects are not followed')
    WHEN words ~ '^refused: ' THEN 'the address of the URL is not allowed'
    WHEN words ~ 'certificate problem: ' THEN 'the certificate was not accepted: '
      || substring(words FROM 'certificate problem: ([A-Za-z -]*[A-Za-z])')
    WHEN words ~* '\m(ssl|tls|certificate)\M' THEN 'no TLS connection could be made'
    WHEN words ~* 'timed out|timeout' THEN 'no answer in time'
    WHEN words ~* 'has no address|resolve' THEN 'the host of the URL has no address'
    WHEN words ~* 'refused|connect to' THEN 'no connection could be made'
    WHEN words ~* 'no answer' THEN 'the connection ended without an answer'
    ELSE 'it could not be delivered' END
$$;
COMMENT ON FUNCTION courier.words_for_owner(text) IS 'What an attempt ended with, in words for the receiver''s owner';

-- courier.maintain() calls it.
CREATE FUNCTION courier.drop_links() RETURNS bigint
LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $$
  WITH gone AS (DELETE FROM courier.receiver_link AS l WHERE l.expires_at <= clock_timestamp() RETURNING 1)
  SELECT count(*) FROM gone
$$;
COMMENT ON FUNCTION courier.drop_links() IS 'Removes links that have expired, and returns how many';

REVOKE ALL ON FUNCTION courier.find_link(text), courier.events_taken(integer, bigint[]), courier.words_for_owner(text),
  courier.drop_links() FROM PUBLIC;
GRANT EXECUTE ON FUNCTION courier.find_link(text), courier.events_taken(integer, bigint[]), courier.words_for_owner(text),
  courier.drop_links() TO courier_relay;
GRANT SELECT, INSERT, DELETE ON courier.receiver_link TO courier_relay;

INSERT INTO courier.schema_version (version, name) VALUES (13, 'portal');
