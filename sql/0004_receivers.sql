-- pgcourier schema, version 4: the receivers of a sink that fans out.

-- A new webhook secret: "whsec_" and 32 bytes in base64. A random UUID has 122 random bits, drawn from
-- the server's strong source: the hash of three is as good as 32 bytes of it.
CREATE FUNCTION courier.new_secret() RETURNS text
LANGUAGE sql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
  SELECT 'whsec_' || encode(sha256(
    uuid_send(gen_random_uuid()) || uuid_send(gen_random_uuid()) || uuid_send(gen_random_uuid())), 'base64')
$$;
COMMENT ON FUNCTION courier.new_secret()
  IS 'A new secret to sign webhooks with: whsec_ and 32 random bytes in base64';

-- For the checks below: a CHECK cannot look into a list itself.
CREATE FUNCTION courier.is_secret(secret text) RETURNS boolean
LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
  -- 24 to 64 bytes: as many groups of four digits, of which only the last may be filled up with =.
  SELECT secret ~ '^whsec_([A-Za-z0-9+/]{4}){7,21}([A-Za-z0-9+/]{4}|[A-Za-z0-9+/]{3}=|[A-Za-z0-9+/]{2}==)$'
         AND length(rtrim(substr(secret, 7), '=')) BETWEEN 32 AND 86
$$;
COMMENT ON FUNCTION courier.is_secret(text) IS 'Whether it is whsec_ and 24 to 64 bytes in base64';

CREATE FUNCTION courier.are_secrets(secrets text[]) RETURNS boolean
LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT coalesce(bool_and(coalesce(courier.is_secret(secret), false)), true) FROM unnest(secrets) AS secret
$$;
COMMENT ON FUNCTION courier.are_secrets(text[]) IS 'Whether each is whsec_ and 24 to 64 bytes in base64';

CREATE FUNCTION courier.are_patterns(patterns text[]) RETURNS boolean
LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT count(*) <= 100
         AND coalesce(bool_and(coalesce(pattern ~ '^!?[^!]' AND octet_length(pattern) <= 256
                                        AND pattern !~ '[[:cntrl:]]', false)), true)
  FROM unnest(patterns) AS pattern
$$;
COMMENT ON FUNCTION courier.are_patterns(text[])
  IS 'Whether these are at most 100 patterns of topics or types';

-- What is visible now. A snapshot does not list its own transaction: if that has an id already, and a
-- transaction with a higher id has committed since, it counts as visible, and so would the events that it
-- publishes. Here it is listed as in progress.
CREATE FUNCTION courier.visible_now() RETURNS pg_snapshot
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  seen pg_snapshot := pg_current_snapshot();
  own  xid8        := pg_current_xact_id_if_assigned();
BEGIN
  IF own < pg_snapshot_xmax(seen) THEN
    RETURN (SELECT format('%s:%s:%s', least(pg_snapshot_xmin(seen), own), pg_snapshot_xmax(seen),
                          string_agg(txid::text, ',' ORDER BY txid))::pg_snapshot
            FROM (SELECT pg_snapshot_xip(seen) UNION SELECT own) AS in_progress (txid));
  END IF;
  RETURN seen; -- an id that is drawn later is not below xmax
END
$$;
COMMENT ON FUNCTION courier.visible_now() IS 'The current snapshot, with its own transaction in progress';

-- The sinks that relays have served here: a relay writes the row when it takes the lane. Receivers can be
-- added to known sinks only (below), and a standby relay sees whether the one that delivers has other
-- settings than its own. A sink that no relay has served yet can be made known by hand:
--
--   INSERT INTO courier.sink (name, fans_out) VALUES ('webhooks', true);
CREATE TABLE courier.sink (
  name     text        NOT NULL,
  fans_out boolean     NOT NULL,
  settings jsonb       NOT NULL DEFAULT '{}',
  topics   text[],
  types    text[],
  told_at  timestamptz NOT NULL DEFAULT clock_timestamp(),

  CONSTRAINT sink_pkey PRIMARY KEY (name),
  CONSTRAINT name_must_be_that_of_a_sink CHECK (name ~ '^[a-z0-9][a-z0-9_-]{0,62}$'),
  CONSTRAINT settings_must_be_an_object CHECK (jsonb_typeof(settings) = 'object')
);
COMMENT ON TABLE courier.sink IS 'The sinks that relays have served here, and with which settings';
COMMENT ON COLUMN courier.sink.fans_out IS 'It has receivers: table, so receivers can be added to it';
COMMENT ON COLUMN courier.sink.settings
  IS 'Where events go and which, in words without secrets, as the last relay to take the lane had it';
COMMENT ON COLUMN courier.sink.topics IS 'Its patterns of topics; NULL: not known, so it may take any';
COMMENT ON COLUMN courier.sink.types IS 'Its patterns of types; NULL: not known; empty: any type, or none';
COMMENT ON COLUMN courier.sink.told_at IS 'When settings were last changed';

-- For the relay that takes a lane. It does not wait long for a transaction that writes the same row; then
-- the next relay that takes the lane notes the sink.
CREATE FUNCTION courier.note_sink(
  name text, fans_out boolean, settings jsonb, topics text[] DEFAULT NULL, types text[] DEFAULT NULL
) RETURNS boolean
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET lock_timeout = '100ms' AS $$
BEGIN
  INSERT INTO courier.sink AS noted (name, fans_out, settings, topics, types)
  VALUES (note_sink.name, note_sink.fans_out, note_sink.settings, note_sink.topics, note_sink.types)
  ON CONFLICT ON CONSTRAINT sink_pkey DO UPDATE
    SET fans_out = excluded.fans_out, settings = excluded.settings, topics = excluded.topics,
        types = excluded.types, told_at = excluded.told_at;
  RETURN true;
EXCEPTION
  WHEN lock_not_available THEN
    RETURN false;
END
$$;
COMMENT ON FUNCTION courier.note_sink(text, boolean, jsonb, text[], text[])
  IS 'For the relay: notes with which settings it serves a sink';

-- One row for each receiver of an http sink with `receivers: table`. Every change takes effect as
-- soon as it is committed; a running relay is told. By plain SQL:
--
--   INSERT INTO courier.receiver (sink, name, url, topics)
--     VALUES ('webhooks', 'acme', 'https://acme.example/hook', '{orders.**}') RETURNING secret;
--   UPDATE courier.receiver SET state = 'paused', state_reason = 'asked by phone' WHERE name = 'acme';
--   UPDATE courier.receiver SET state = 'active' WHERE name = 'acme';
--   SELECT courier.rotate_secret('acme', overlap => '24 hours');
--   DELETE FROM courier.receiver WHERE name = 'acme';
--
-- The id is the number of the receiver's lane: of its rows in courier.cursor, courier.parked and
-- courier.dead_letter. It begins at 1, since 0 is the lane of the sink itself. It is never given out
-- twice, so a receiver that is removed and added again begins anew.
CREATE TABLE courier.receiver (
  id                integer          GENERATED ALWAYS AS IDENTITY,
  sink              text             NOT NULL,
  name              text             NOT NULL,
  description       text,

  url               text             NOT NULL,
  secret            text             NOT NULL DEFAULT courier.new_secret(),
  old_secrets       text[]           NOT NULL DEFAULT '{}',
  old_secrets_until timestamptz,
  headers           jsonb            NOT NULL DEFAULT '{}',

  topics            text[]           NOT NULL DEFAULT '{**,!courier.**}',
  types             text[]           NOT NULL DEFAULT '{}',
  filter            jsonpath,
  start             text             NOT NULL DEFAULT 'now',
  start_snapshot    pg_snapshot      NOT NULL DEFAULT courier.visible_now(),
  start_floor       bigint           NOT NULL DEFAULT courier.outbox_floor(),

  concurrency       integer          NOT NULL DEFAULT 8,
  rate              double precision NOT NULL DEFAULT 0,
  burst             integer          NOT NULL DEFAULT 0,

  state             text             NOT NULL DEFAULT 'active',
  state_reason      text,
  state_since       timestamptz      NOT NULL DEFAULT clock_timestamp(),
  failing_since     timestamptz,
  last_error        text,
  last_failed_at    timestamptz,
  created_at        timestamptz      NOT NULL DEFAULT clock_timestamp(),

  CONSTRAINT receiver_pkey PRIMARY KEY (id),
  CONSTRAINT receiver_name_key UNIQUE (name),
  CONSTRAINT sink_must_be_the_name_of_a_sink CHECK (sink ~ '^[a-z0-9][a-z0-9_-]{0,62}$'),
  CONSTRAINT name_must_be_1_to_100_of_letters_digits_dot_dash_underscore
    CHECK (name ~ '^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$'),
  CONSTRAINT description_must_be_at_most_1000_bytes CHECK (octet_length(description) <= 1000),
  CONSTRAINT description_must_not_contain_control_characters CHECK (description !~ '[[:cntrl:]]'),

  CONSTRAINT url_must_begin_with_http_or_https_and_a_host CHECK (url ~ '^https?://[^/?#]'),
  CONSTRAINT url_must_be_of_visible_ascii_without_backslashes CHECK (url !~ '[^\x21-\x5b\x5d-\x7e]'),
  CONSTRAINT url_must_not_contain_a_user_or_password CHECK (url !~ '^https?://[^/?#]*@'),
  CONSTRAINT url_must_be_at_most_2048_bytes CHECK (octet_length(url) <= 2048),
  CONSTRAINT secret_must_be_whsec_and_24_to_64_bytes_in_base64 CHECK (courier.is_secret(secret)),
  CONSTRAINT old_secrets_must_be_whsec_and_24_to_64_bytes_in_base64 CHECK (courier.are_secrets(old_secrets)),
  CONSTRAINT old_secrets_must_be_at_most_10 CHECK (cardinality(old_secrets) <= 10),
  CONSTRAINT old_secrets_need_old_secrets_until CHECK (old_secrets = '{}' OR old_secrets_until IS NOT NULL),
  CONSTRAINT headers_must_be_an_object_of_texts
    CHECK (jsonb_typeof(headers) = 'object' AND NOT headers @? 'strict $.* ? (@.type() != "string")'),
  CONSTRAINT header_names_must_be_of_letters_digits_and_dashes
    CHECK (NOT headers @? '$.keyvalue() ? (!(@.key like_regex "^[A-Za-z0-9!#$%&''*+.^_`|~-]+$"))'),
  CONSTRAINT header_values_must_not_contain_control_characters
    CHECK (NOT headers @? '$.* ? (@ like_regex "[[:cntrl:]]")'),
  CONSTRAINT headers_must_be_at_most_16_kibibytes CHECK (octet_length(headers::text) <= 16384),

  CONSTRAINT topics_must_be_1_to_100_patterns
    CHECK (cardinality(topics) > 0 AND courier.are_patterns(topics)),
  CONSTRAINT topics_must_not_all_exclude CHECK (array_to_string(topics, E'\n') ~ '(^|\n)[^!]'),
  CONSTRAINT types_must_be_at_most_100_patterns CHECK (courier.are_patterns(types)),
  CONSTRAINT filter_must_be_at_most_4096_bytes CHECK (octet_length(filter::text) <= 4096),
  CONSTRAINT start_must_be_now_or_beginning CHECK (start IN ('now', 'beginning')),

  CONSTRAINT concurrency_must_be_1_to_1024 CHECK (concurrency BETWEEN 1 AND 1024),
  CONSTRAINT rate_must_be_0_to_1000000 CHECK (rate BETWEEN 0 AND 1000000),
  CONSTRAINT burst_must_be_0_to_1000000 CHECK (burst BETWEEN 0 AND 1000000),
  CONSTRAINT state_must_be_active_paused_or_disabled CHECK (state IN ('active', 'paused', 'disabled')),
  CONSTRAINT state_reason_must_be_at_most_1000_bytes CHECK (octet_length(state_reason) <= 1000),
  CONSTRAINT state_reason_must_not_contain_control_characters CHECK (state_reason !~ '[[:cntrl:]]')
);

-- Counts the dead letters of one receiver without reading those of all.
CREATE INDEX dead_letter_lane_idx ON courier.dead_letter (sink, lane, id) WHERE lane <> 0;

COMMENT ON TABLE courier.receiver
  IS 'The receivers of http sinks with receivers: table; see pgcourier receiver';
COMMENT ON COLUMN courier.receiver.id
  IS 'The lane of its rows in courier.cursor, courier.parked and courier.dead_letter';
COMMENT ON COLUMN courier.receiver.sink IS 'The http sink that delivers to it; never changed';
COMMENT ON COLUMN courier.receiver.name IS 'For people, commands and events; may be changed';
COMMENT ON COLUMN courier.receiver.description IS 'For people; not used by pgcourier';
COMMENT ON COLUMN courier.receiver.url IS 'Where its events are posted to';
COMMENT ON COLUMN courier.receiver.secret
  IS 'Signs each request: whsec_ and the key in base64; the receiver needs it to verify';
COMMENT ON COLUMN courier.receiver.old_secrets
  IS 'Earlier secrets, the newest first; they sign too until old_secrets_until';
COMMENT ON COLUMN courier.receiver.old_secrets_until IS 'From then on old_secrets sign no longer';
COMMENT ON COLUMN courier.receiver.headers
  IS 'A JSON object of names and texts to send along with each request';
COMMENT ON COLUMN courier.receiver.topics
  IS 'Patterns: * is any characters up to the next dot, ** any at all, ! excludes whatever the others say';
COMMENT ON COLUMN courier.receiver.types
  IS 'Patterns of the same form for the type of an event; empty: any type, or none';
COMMENT ON COLUMN courier.receiver.filter
  IS 'A JSON path predicate that the payload must meet; NULL: any payload';
COMMENT ON COLUMN courier.receiver.start
  IS 'now: only events that were not committed when the receiver was added, those of the same transaction included; beginning: all that the outbox still has';
COMMENT ON COLUMN courier.receiver.start_snapshot
  IS 'What was visible when it was added; with start_floor, the sequence read after that, where it begins; never set by hand';
COMMENT ON COLUMN courier.receiver.concurrency IS 'Requests under way at the same time, at most';
COMMENT ON COLUMN courier.receiver.rate IS 'Events a second, on average; 0: as fast as it goes';
COMMENT ON COLUMN courier.receiver.burst
  IS 'Events that may go at once after a pause, within rate; 0: those of one second';
COMMENT ON COLUMN courier.receiver.state
  IS 'active; paused: its events wait; disabled: the same, because it failed for too long or said that it wants no more';
COMMENT ON COLUMN courier.receiver.state_reason IS 'Why it is paused or disabled';
COMMENT ON COLUMN courier.receiver.state_since IS 'When state was last changed; set by a trigger';
COMMENT ON COLUMN courier.receiver.failing_since
  IS 'No delivery has succeeded since then; set by the relay after a minute, NULL after a success';
COMMENT ON COLUMN courier.receiver.last_error
  IS 'The last failure that the relay noted, in the receiver''s words or ours';

-- What a CHECK cannot express. A filter that is no predicate never matches, and nothing is delivered to a
-- sink that does not exist: such a receiver would silently get nothing. The sinks are those in
-- courier.sink; as long as none with receivers is listed there, any name is accepted. Runs with its
-- owner's rights: a role that manages receivers need not be able to read these tables.
-- (courier.filter_error() comes with the next migration.)
-- The network that is not public and has this address, with its name; NULL if there is none. The relay judges
-- each address that it connects to (src/sinks/address_guard.c), also those of names.
CREATE FUNCTION courier.refused_network(address inet) RETURNS text
LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT format('%s (%s)', network, name)
  FROM (VALUES
    ('0.0.0.0/8', 'this machine'), ('10.0.0.0/8', 'private'),
    ('100.64.0.0/10', 'shared by a provider''s customers'), ('127.0.0.0/8', 'this machine'),
    ('169.254.0.0/16', 'link-local; cloud metadata'), ('168.63.129.16/32', 'Azure''s host'),
    ('172.16.0.0/12', 'private'), ('192.0.0.0/24', 'reserved for protocols'),
    ('192.0.2.0/24', 'for documentation'), ('192.88.99.0/24', '6to4 relays'), ('192.168.0.0/16', 'private'),
    ('198.18.0.0/15', 'for benchmarks'), ('198.51.100.0/24', 'for documentation'),
    ('203.0.113.0/24', 'for documentation'), ('224.0.0.0/4', 'multicast'), ('240.0.0.0/4', 'reserved; broadcast'),
    ('::/128', 'this machine'), ('::1/128', 'this machine'), ('::/96', 'IPv4-compatible'),
    ('64:ff9b:1::/48', 'translation within a network'), ('100::/64', 'discarded'), ('2001::/32', 'Teredo'),
    ('2001:db8::/32', 'for documentation'), ('3fff::/20', 'for documentation'), ('5f00::/16', 'segment routing'),
    ('fc00::/7', 'private'), ('fe80::/10', 'link-local'), ('fec0::/10', 'site-local'), ('ff00::/8', 'multicast')
  ) AS refused (network, name)
  WHERE address <<= network::inet
  LIMIT 1
$$;
COMMENT ON FUNCTION courier.refused_network(inet) IS 'The network with this address that is not public; NULL: none';

-- The address that a URL names instead of a host's name; NULL if it names none.
CREATE FUNCTION courier.url_address(url text) RETURNS inet
LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  RETURN coalesce(substring(url FROM '^https?://([0-9]+\.[0-9]+\.[0-9]+\.[0-9]+)(?::[0-9]*)?(?:[/?#]|$)'),
                  substring(url FROM '^https?://\[([0-9A-Fa-f:.]+)\](?::[0-9]*)?(?:[/?#]|$)'))::inet;
EXCEPTION
  WHEN invalid_text_representation THEN
    RETURN NULL;
END
$$;
COMMENT ON FUNCTION courier.url_address(text) IS 'The IP address that a URL names as its host; NULL: none';

CREATE FUNCTION courier.check_receiver() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  fault   text := CASE WHEN NEW.filter IS NOT NULL THEN courier.filter_error(NEW.filter::text) END;
  address inet := courier.url_address(NEW.url);
  refused text := courier.refused_network(address);
  known   text;
BEGIN
  -- Which networks the sink may connect to is known once a relay has served it.
  IF refused IS NOT NULL AND EXISTS (
       SELECT FROM courier.sink
       WHERE sink.name = NEW.sink AND sink.settings ? 'networks'
         AND NOT EXISTS (SELECT FROM string_to_table(sink.settings ->> 'networks', ', ') AS allowed (network)
                         WHERE allowed.network <> '' AND address <<= allowed.network::inet)) THEN
    RAISE EXCEPTION 'receiver %: the url is refused: % lies in %', NEW.name, host(address), refused
      USING ERRCODE = 'check_violation', CONSTRAINT = 'url_must_not_name_a_private_address',
            SCHEMA = 'courier', TABLE = 'receiver', COLUMN = 'url',
            HINT = format('http.allow_networks of the sink %s can allow it', NEW.sink);
  END IF;
  IF fault IS NOT NULL THEN
    RAISE EXCEPTION 'receiver %: the filter is refused: %', NEW.name, fault
      USING ERRCODE = 'check_violation', CONSTRAINT = 'filter_must_be_a_predicate',
            SCHEMA = 'courier', TABLE = 'receiver', COLUMN = 'filter';
  END IF;
  IF TG_OP = 'INSERT' AND EXISTS (SELECT FROM courier.sink WHERE sink.name = NEW.sink AND NOT fans_out) THEN
    RAISE EXCEPTION 'receiver %: sink % has one destination and takes no receivers', NEW.name, NEW.sink
      USING ERRCODE = 'foreign_key_violation', CONSTRAINT = 'sink_must_have_receivers_table',
            SCHEMA = 'courier', TABLE = 'receiver', COLUMN = 'sink',
            HINT = 'If its configuration says receivers: table by now, start or reload the relay that serves it';
  ELSIF TG_OP = 'INSERT' AND NOT EXISTS (SELECT FROM courier.sink WHERE sink.name = NEW.sink) THEN
    SELECT string_agg(name, ', ' ORDER BY name) INTO known
    FROM (SELECT name FROM courier.sink WHERE fans_out ORDER BY name LIMIT 20) AS first;
    IF known IS NOT NULL THEN
      RAISE EXCEPTION 'receiver %: there is no sink % with receivers: table; there are: %', NEW.name, NEW.sink, known
        USING ERRCODE = 'foreign_key_violation', CONSTRAINT = 'sink_must_have_receivers_table',
              SCHEMA = 'courier', TABLE = 'receiver', COLUMN = 'sink',
              HINT = format('If the relay that will serve it has not started yet, register the sink first: INSERT INTO '
                'courier.sink (name, fans_out) VALUES (%L, true)', NEW.sink);
    END IF;
  END IF;
  RETURN NEW;
END
$$;
COMMENT ON FUNCTION courier.check_receiver()
  IS 'Refuses filters that are no predicate, private addresses, and sinks that do not exist';

CREATE TRIGGER check_receiver BEFORE INSERT OR UPDATE OF filter, url ON courier.receiver
  FOR EACH ROW EXECUTE FUNCTION courier.check_receiver();

-- Keeps the columns right that an UPDATE by hand leaves out. A receiver may not move to another sink: it
-- would leave its cursor and its parked rows behind.
CREATE FUNCTION courier.keep_receiver() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  IF NEW.sink <> OLD.sink THEN
    RAISE EXCEPTION 'receiver %: it belongs to the sink %, which cannot be changed', OLD.name, OLD.sink
      USING ERRCODE = 'restrict_violation', HINT = 'Remove it and add it to the other sink';
  END IF;
  IF NEW.state <> OLD.state THEN
    NEW.state_since := clock_timestamp();
    IF NEW.state = 'active' THEN -- a new start: what was known of it is no longer news
      NEW.state_reason := NULL;
      NEW.failing_since := NULL;
    END IF;
  END IF;
  RETURN NEW;
END
$$;
COMMENT ON FUNCTION courier.keep_receiver()
  IS 'Keeps state_since, state_reason and failing_since true to state';

CREATE TRIGGER keep_receiver BEFORE UPDATE ON courier.receiver
  FOR EACH ROW EXECUTE FUNCTION courier.keep_receiver();

-- Not for what the relay itself notes: failing_since, last_error and last_failed_at.
CREATE TRIGGER ring_control
  AFTER INSERT OR DELETE OR TRUNCATE
    OR UPDATE OF name, url, secret, old_secrets, old_secrets_until, headers, topics, types, filter,
                 concurrency, rate, burst, state
  ON courier.receiver
  FOR EACH STATEMENT EXECUTE FUNCTION courier.ring_control();

-- Gives a receiver a new secret, and returns it. The one before signs too for as long as `overlap`
-- says, so that the receiver can change over without refusing a request; so do those before it that
-- still do. An overlap of 0 ends all of them at once: for a secret that got into the wrong hands.
--
-- Errors: no_data_found, check_violation with the name of the broken rule.
CREATE FUNCTION courier.rotate_secret(
  receiver   text,
  overlap    interval DEFAULT '24 hours',
  new_secret text     DEFAULT courier.new_secret()
) RETURNS text
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  moment timestamptz := clock_timestamp();
BEGIN
  IF overlap IS NULL OR overlap NOT BETWEEN '0' AND '1 year' THEN
    RAISE EXCEPTION 'receiver %: overlap is %, which is not between 0 and one year',
        quote_nullable(receiver), quote_nullable(overlap::text)
      USING ERRCODE = 'invalid_parameter_value', HINT = 'Write it like ''24 hours''; ''0'' ends the old secret at once';
  END IF;
  UPDATE courier.receiver AS e SET
    secret = new_secret,
    old_secrets = CASE
      WHEN overlap = '0' THEN '{}'
      WHEN e.old_secrets_until > moment THEN (e.secret || array_remove(e.old_secrets, e.secret))[:10]
      ELSE ARRAY[e.secret] END,
    old_secrets_until = CASE WHEN overlap > '0' THEN moment + overlap END
    WHERE e.name = rotate_secret.receiver;
  IF NOT FOUND THEN
    RAISE EXCEPTION 'there is no receiver %', quote_nullable(receiver)
      USING ERRCODE = 'no_data_found', HINT = 'SELECT name FROM courier.receiver';
  END IF;
  RETURN new_secret;
END
$$;
COMMENT ON FUNCTION courier.rotate_secret(text, interval, text)
  IS 'Gives a receiver a new secret and returns it; the old one signs too for a while';

-- Says something about a receiver by an event of its own; for the functions below. No event may be
-- lost by a crash of the server once it is delivered, hence the commit that waits.
CREATE FUNCTION courier.publish_receiver_event(
  e courier.receiver, topic text, reason text, failing_since timestamptz) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  PERFORM set_config('synchronous_commit', 'local', true);
  INSERT INTO courier.outbox (topic, key, type, payload)
  VALUES (topic, e.name, topic, json_build_object(
    'receiver', e.name,
    'sink', e.sink,
    'url', regexp_replace(e.url, '[?#].*$', ''), -- what follows may be a token
    'reason', reason,
    'failing_since', failing_since,
    'at', clock_timestamp()));
END
$$;
COMMENT ON FUNCTION courier.publish_receiver_event(courier.receiver, text, text, timestamptz)
  IS 'Publishes courier.receiver.failing, .recovered or .disabled';

-- For the relay: the receiver has been failing for so long. Publishes courier.receiver.failing once
-- until it recovers; true if it did now.
CREATE FUNCTION courier.note_receiver_failing(receiver_id integer, failing_for interval, error text)
RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  e        courier.receiver;
  was_news boolean;
BEGIN
  SELECT * INTO e FROM courier.receiver AS old WHERE old.id = receiver_id FOR UPDATE;
  IF NOT FOUND THEN
    RETURN false; -- removed meanwhile
  END IF;
  was_news := e.failing_since IS NULL AND e.state = 'active';
  IF was_news THEN
    e.failing_since := clock_timestamp() - failing_for;
  END IF;
  e.last_error := left(error, 1000);
  UPDATE courier.receiver AS new
    SET failing_since = e.failing_since, last_error = e.last_error, last_failed_at = clock_timestamp()
    WHERE new.id = receiver_id;
  IF was_news THEN
    PERFORM courier.publish_receiver_event(e, 'courier.receiver.failing', e.last_error, e.failing_since);
  END IF;
  RETURN was_news;
END
$$;
COMMENT ON FUNCTION courier.note_receiver_failing(integer, interval, text)
  IS 'For the relay: notes that a receiver has been failing, and publishes it once';

-- For the relay: the receiver has taken an event again. Publishes courier.receiver.recovered if
-- courier.receiver.failing was published; true if so.
CREATE FUNCTION courier.note_receiver_recovered(receiver_id integer) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  e courier.receiver;
BEGIN
  SELECT * INTO e FROM courier.receiver AS old
    WHERE old.id = receiver_id AND old.failing_since IS NOT NULL FOR UPDATE;
  IF NOT FOUND THEN
    RETURN false;
  END IF;
  UPDATE courier.receiver AS new SET failing_since = NULL WHERE new.id = receiver_id;
  PERFORM courier.publish_receiver_event(e, 'courier.receiver.recovered', e.last_error, e.failing_since);
  RETURN true;
END
$$;
COMMENT ON FUNCTION courier.note_receiver_recovered(integer)
  IS 'For the relay: notes that a receiver works again, and publishes it';

-- For the relay: the receiver has been failing for too long, or wants no more. Does nothing unless
-- it is active; true if it did.
CREATE FUNCTION courier.disable_receiver(receiver_id integer, reason text) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  e courier.receiver;
BEGIN
  UPDATE courier.receiver AS old
    SET state = 'disabled', state_reason = left(regexp_replace(reason, '[[:cntrl:]]+', ' ', 'g'), 250)
    WHERE old.id = receiver_id AND old.state = 'active'
    RETURNING * INTO e;
  IF NOT FOUND THEN
    RETURN false;
  END IF;
  PERFORM courier.publish_receiver_event(e, 'courier.receiver.disabled', e.state_reason, e.failing_since);
  RETURN true;
END
$$;
COMMENT ON FUNCTION courier.disable_receiver(integer, text)
  IS 'For the relay: disables a receiver, and publishes it';

-- Secrets are the relay's: a publisher may not even see where its events go. An application that
-- manages receivers needs no more than rights on the table; the other functions run with its own.
REVOKE ALL ON FUNCTION courier.publish_receiver_event(courier.receiver, text, text, timestamptz),
  courier.note_receiver_failing(integer, interval, text), courier.note_receiver_recovered(integer),
  courier.disable_receiver(integer, text), courier.note_sink(text, boolean, jsonb, text[], text[]),
  courier.check_receiver() FROM PUBLIC;
GRANT EXECUTE ON FUNCTION courier.note_receiver_failing(integer, interval, text),
  courier.note_receiver_recovered(integer), courier.disable_receiver(integer, text),
  courier.note_sink(text, boolean, jsonb, text[], text[]) TO courier_relay;
GRANT SELECT, INSERT, UPDATE, DELETE ON courier.receiver TO courier_relay;
GRANT SELECT, INSERT, UPDATE, DELETE ON courier.sink TO courier_relay;
GRANT DELETE ON courier.cursor TO courier_relay; -- of a receiver that was removed

INSERT INTO courier.schema_version (version, name) VALUES (4, 'receivers');
