-- The queues of pgq.c: one for each topic and size of a batch, filled by baseline.pgq_fill().
--
-- A queue cannot be divided into batches within a transaction. So there is one for each size: a
-- transaction of so many events at a time, and a tick after each.
CREATE EXTENSION pgq;

CREATE FUNCTION baseline.pgq_create(queue text) RETURNS void LANGUAGE sql AS $$
  SELECT pgq.create_queue(queue);
  SELECT pgq.set_queue_config(queue, 'ticker_max_count', '1'); -- a tick whenever it is asked for one
  SELECT pgq.ticker(queue);
$$;

-- event_id, topic, key and headers go where PgQ has room for what is the user's own.
CREATE PROCEDURE baseline.pgq_fill(queue text, of_topic text, n_events bigint, batch integer)
LANGUAGE plpgsql AS $$
DECLARE
  ids bigint[];
BEGIN
  FOR ids IN
    SELECT array_agg(id)
    FROM (SELECT id, (row_number() OVER (ORDER BY id) - 1) / batch AS page
          FROM courier.outbox WHERE topic = of_topic ORDER BY id LIMIT n_events) AS chosen
    GROUP BY page ORDER BY page
  LOOP
    PERFORM pgq.insert_event(queue, type, payload::text, event_id::text, topic, key, headers::text)
    FROM courier.outbox WHERE id = ANY (ids) ORDER BY id;
    COMMIT;
    PERFORM pgq.ticker(queue);
    COMMIT;
  END LOOP;
END
$$;
