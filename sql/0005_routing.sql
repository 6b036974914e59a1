-- pgcourier schema, version 5: what the patterns and filters of sinks and receivers say about an event.

-- A pattern of topics or types, without its `!`, as a regular expression that is not anchored: * is any
-- run of characters without a dot, ** any run at all, everything else stands for itself. The same rule
-- in C: src/text/topic_pattern.h. Both functions are inlined by the planner.
CREATE FUNCTION courier.pattern_regex(pattern text) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
  SELECT pg_catalog.replace(pg_catalog.replace(pg_catalog.replace(
           pg_catalog.regexp_replace(pattern, '([].\\+?()[{}|^$])', '\\\1', 'g'),
           '**', E'\x01'), '*', '[^.]*'), E'\x01', '.*')
$$;
COMMENT ON FUNCTION courier.pattern_regex(text)
  IS 'A pattern of topics, e.g. orders.*, as a part of a regular expression';

CREATE FUNCTION courier.pattern_matches(pattern text, topic text) RETURNS boolean
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
  SELECT topic OPERATOR(pg_catalog.~) ('^(?:' OPERATOR(pg_catalog.||) courier.pattern_regex(pattern)
                                       OPERATOR(pg_catalog.||) ')$')
$$;
COMMENT ON FUNCTION courier.pattern_matches(text, text)
  IS 'Whether a pattern of topics, e.g. orders.*, matches a topic';

-- Which of the filters (jsonpath predicates) are true of a payload, by their numbers from 1, in order.
-- A payload that jsonb cannot hold (\u0000, numbers beyond its range) meets no filter, and a filter whose
-- jsonpath fails although it is silent is not met: the event or the filter is at fault, and the answer is
-- the same each time. The function fails where the server is at fault (memory, a disk) or the time is up
-- (statement_timeout); the error's detail names the event that it was given, and the number of the filter,
-- or 0. Names are qualified, because a search_path of its own would cost as much as the rest of a call.
CREATE FUNCTION courier.true_filters(payload json, filters jsonpath[], event_id bigint DEFAULT NULL)
RETURNS integer[]
LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
  document pg_catalog.jsonb;
  held     integer[] := '{}';
  at       integer := 0;
BEGIN
  IF payload IS NULL THEN
    RETURN held;
  END IF;
  BEGIN
    document := payload;
    FOR n IN 1 .. pg_catalog.cardinality(filters) LOOP
      at := n;
      IF document OPERATOR(pg_catalog.@@) filters[n] THEN
        held := pg_catalog.array_append(held, n);
      END IF;
    END LOOP;
    RETURN held;
  EXCEPTION
    WHEN data_exception OR program_limit_exceeded OR feature_not_supported THEN
      IF document IS NULL THEN
        RETURN '{}';
      END IF;
    WHEN query_canceled OR others THEN
      RAISE EXCEPTION USING ERRCODE = sqlstate, MESSAGE = sqlerrm,
        DETAIL = pg_catalog.format('event %s, filter %s', event_id, at);
  END;
  -- One of them failed: each by itself, so that the others count.
  held := '{}';
  FOR n IN 1 .. pg_catalog.cardinality(filters) LOOP
    BEGIN
      IF document OPERATOR(pg_catalog.@@) filters[n] THEN
        held := pg_catalog.array_append(held, n);
      END IF;
    EXCEPTION
      WHEN data_exception OR program_limit_exceeded OR feature_not_supported THEN
        NULL;
      WHEN query_canceled OR others THEN
        RAISE EXCEPTION USING ERRCODE = sqlstate, MESSAGE = sqlerrm,
          DETAIL = pg_catalog.format('event %s, filter %s', event_id, n);
    END;
  END LOOP;
  RETURN held;
END
$$;
COMMENT ON FUNCTION courier.true_filters(json, jsonpath[], bigint)
  IS 'Which of the jsonpath predicates hold for a payload, by number from 1; an event''s id is for the error when its time is up';

-- What is wrong with a filter, in PostgreSQL's words, or NULL.
CREATE FUNCTION courier.filter_error(filter text) RETURNS text
LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  path   jsonpath;
  answer jsonb;
BEGIN
  path := filter;
  -- Each list of subscripts multiplies the work for what follows it, here too: [0, 0][0, 0]... Outside of
  -- strings only such lists have commas.
  IF regexp_replace(path::text, '"([^"\\]|\\.)*"', '', 'g') ~ '(,.*){9}' THEN
    RETURN 'it has too many subscripts in lists ([0, 1]): at most 8 commas in all';
  END IF;
  -- A predicate has one answer whatever it is asked about: true, false or unknown.
  answer := jsonb_path_query_array('{}', path, silent => true);
  IF jsonb_array_length(answer) = 1 AND jsonb_typeof(answer -> 0) IN ('boolean', 'null') THEN
    RETURN NULL;
  END IF;
  RETURN 'it is not a predicate: compare ($.a == true), or ask whether something is there (exists($.a))';
EXCEPTION WHEN others THEN
  RETURN sqlerrm;
END
$$;
COMMENT ON FUNCTION courier.filter_error(text) IS 'What is wrong with a jsonpath predicate, or NULL';

REVOKE ALL ON FUNCTION courier.pattern_regex(text), courier.pattern_matches(text, text),
  courier.true_filters(json, jsonpath[], bigint), courier.filter_error(text) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION courier.pattern_regex(text), courier.pattern_matches(text, text),
  courier.true_filters(json, jsonpath[], bigint), courier.filter_error(text) TO courier_relay;

INSERT INTO courier.schema_version (version, name) VALUES (5, 'routing');
