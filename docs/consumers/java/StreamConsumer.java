// Books the orders of a Redis stream: each order once, however often its event comes.
//
// The events are those of a pgcourier sink of kind redis. Any number of these may run: they are the
// workers of one consumer group. SIGTERM ends it after the event at hand.
//
// Needs Java 17, and jars: mvn dependency:copy-dependencies -DoutputDirectory=jars
// Run: java -cp 'jars/*' StreamConsumer.java
// Environment: REDIS_URL, DATABASE_URL, STREAM (events:orders.created), WORKER (the host's name),
// CLAIM_AFTER_MS (60000)
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.IOException;
import java.net.InetAddress;
import java.net.URI;
import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.SQLException;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.UUID;
import redis.clients.jedis.RedisClient;
import redis.clients.jedis.StreamEntryID;
import redis.clients.jedis.exceptions.JedisDataException;
import redis.clients.jedis.params.XAutoClaimParams;
import redis.clients.jedis.params.XReadGroupParams;
import redis.clients.jedis.resps.StreamEntry;

public class StreamConsumer {
    static final String CONSUMER = "billing"; // the group's name, and the consumer's in the inbox
    static final String STREAM = setting("STREAM", "events:orders.created");
    static final long CLAIM_AFTER_MS = Long.parseLong(setting("CLAIM_AFTER_MS", "60000")); // longer than an event takes
    static volatile boolean isStopping = false;

    static String setting(String name, String otherwise) {
        return Optional.ofNullable(System.getenv(name)).orElse(otherwise);
    }

    /** The change. It need not be idempotent. */
    static void book(Connection database, String payload) throws SQLException, IOException {
        var order = new ObjectMapper().readTree(payload);
        try (var insert = database.prepareStatement("INSERT INTO booking (order_id, cents) VALUES (?, ?)")) {
            insert.setLong(1, order.required("order").longValue());
            insert.setLong(2, order.required("cents").longValue());
            insert.executeUpdate();
        }
    }

    /** Accepts the event and makes the change in one transaction: both, or neither. */
    static void process(Connection database, Map<String, String> event) throws SQLException, IOException {
        try (var accept = database.prepareStatement("SELECT courier_inbox.accept(?, ?)")) {
            accept.setString(1, CONSUMER);
            accept.setObject(2, UUID.fromString(event.get("id")));
            var answer = accept.executeQuery();
            answer.next();
            if (answer.getBoolean(1)) {
                book(database, event.get("payload"));
            } else {
                System.out.println("came again: " + event.get("id"));
            }
            database.commit();
        } catch (Exception error) {
            database.rollback(); // fails if the connection is lost, and that ends the process
            throw error;
        }
    }

    /** What some worker took long ago and has not acknowledged; or else what is new. */
    static List<StreamEntry> nextEntries(RedisClient stream, String worker) {
        var left = stream.xautoclaim(STREAM, CONSUMER, worker, CLAIM_AFTER_MS, new StreamEntryID("0-0"),
                new XAutoClaimParams().count(100)).getValue();
        if (!left.isEmpty()) {
            return left;
        }
        var fresh = stream.xreadGroup(CONSUMER, worker, new XReadGroupParams().count(100).block(1000),
                Map.of(STREAM, StreamEntryID.XREADGROUP_UNDELIVERED_ENTRY));
        return fresh == null || fresh.isEmpty() ? List.of() : fresh.get(0).getValue();
    }

    /** Until SIGTERM, or until a connection is lost: then systemd or the like starts it again. */
    static void consume(RedisClient stream, Connection database) throws Exception {
        String worker = setting("WORKER", InetAddress.getLocalHost().getHostName()); // another one for each process
        try {
            stream.xgroupCreate(STREAM, CONSUMER, new StreamEntryID("0-0"), true);
        } catch (JedisDataException error) {
            if (!error.getMessage().startsWith("BUSYGROUP")) { // it exists
                throw error;
            }
        }
        while (!isStopping) {
            for (StreamEntry entry : nextEntries(stream, worker)) {
                if (isStopping) {
                    break; // the rest is claimed by another worker, or by the next start
                }
                try {
                    process(database, entry.getFields());
                } catch (Exception error) {
                    if (database.isClosed()) {
                        throw error;
                    }
                    System.out.println(entry.getFields().get("id") + " comes again later: " + error);
                    continue;
                }
                stream.xack(STREAM, CONSUMER, entry.getID()); // after the commit, never before
            }
        }
    }

    public static void main(String[] arguments) throws Exception {
        Thread main = Thread.currentThread();
        Runtime.getRuntime().addShutdownHook(new Thread(() -> {
            isStopping = true;
            try {
                main.join();
            } catch (InterruptedException ignored) {
            }
        }));
        URI url = URI.create(setting("DATABASE_URL", "")); // postgresql://user:password@host:port/database
        String[] user = Optional.ofNullable(url.getUserInfo()).orElse("").split(":", 2);
        String server = url.getRawAuthority().replaceFirst("^.*@", "");
        try (var stream = RedisClient.create(setting("REDIS_URL", "redis://localhost:6379"));
                var database = DriverManager.getConnection("jdbc:postgresql://" + server + url.getRawPath(), user[0],
                        user.length > 1 ? user[1] : null)) {
            database.setAutoCommit(false);
            consume(stream, database);
        }
    }
}
