// Books the orders that come as webhooks: each order once, however often its event comes.
//
// The requests are those of a pgcourier sink of kind http with a secret (Standard Webhooks). SIGTERM
// ends it when the requests at hand are answered. In a web framework, copy isSigned() and process();
// the body must be the bytes that came.
//
// Needs Java 17, and jars: mvn dependency:copy-dependencies -DoutputDirectory=jars
// Run: java -cp 'jars/*' WebhookReceiver.java
// Environment: WEBHOOK_SECRET, DATABASE_URL, PORT (8480), WEBHOOK_HEADER_PREFIX (webhook-)
import com.fasterxml.jackson.databind.ObjectMapper;
import com.sun.net.httpserver.Headers;
import com.sun.net.httpserver.HttpExchange;
import com.sun.net.httpserver.HttpServer;
import com.zaxxer.hikari.HikariDataSource;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.net.URI;
import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.sql.Connection;
import java.sql.SQLException;
import java.sql.SQLTransientConnectionException;
import java.util.Base64;
import java.util.Optional;
import java.util.UUID;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.TimeUnit;
import javax.crypto.Mac;
import javax.crypto.spec.SecretKeySpec;

public class WebhookReceiver {
    static final String CONSUMER = "billing";
    static final String PREFIX = setting("WEBHOOK_HEADER_PREFIX", "webhook-");
    static final SecretKeySpec KEY = new SecretKeySpec( // of no secret there is none
            Base64.getDecoder().decode(setting("WEBHOOK_SECRET", "").replaceFirst("^whsec_", "")), "HmacSHA256");
    static final long TOLERANCE_S = 300;
    static final int MAX_BODY = 1 << 20;
    static final HikariDataSource databases = new HikariDataSource();

    static String setting(String name, String otherwise) {
        return Optional.ofNullable(System.getenv(name)).orElse(otherwise);
    }

    static String header(Headers headers, String name) {
        return Optional.ofNullable(headers.getFirst(PREFIX + name)).orElse("");
    }

    /** Whether one of the signatures is that of our secret, for these bytes and about this time. */
    static boolean isSigned(Headers headers, byte[] body) throws Exception {
        String sentAt = header(headers, "timestamp");
        if (!sentAt.matches("[0-9]{1,12}")
                || Math.abs(System.currentTimeMillis() / 1000 - Long.parseLong(sentAt)) > TOLERANCE_S) {
            return false;
        }
        Mac mac = Mac.getInstance("HmacSHA256");
        mac.init(KEY);
        mac.update((header(headers, "id") + "." + sentAt + ".").getBytes(StandardCharsets.UTF_8));
        byte[] wanted = ("v1," + Base64.getEncoder().encodeToString(mac.doFinal(body))).getBytes(StandardCharsets.UTF_8);
        boolean isFound = false;
        for (String given : header(headers, "signature").split(" ")) { // while the sender changes its secret: two
            isFound |= MessageDigest.isEqual(given.getBytes(StandardCharsets.UTF_8), wanted); // in constant time
        }
        return isFound;
    }

    /** The change. It need not be idempotent. */
    static void book(Connection database, byte[] body) throws SQLException, IOException {
        var order = new ObjectMapper().readTree(body);
        try (var insert = database.prepareStatement("INSERT INTO booking (order_id, cents) VALUES (?, ?)")) {
            insert.setLong(1, order.required("order").longValue());
            insert.setLong(2, order.required("cents").longValue());
            insert.executeUpdate();
        }
    }

    /** Accepts the event and makes the change in one transaction: both, or neither. */
    static void process(String id, byte[] body) throws SQLException, IOException {
        try (Connection database = databases.getConnection()) { // without commit(), its end rolls back
            try (var accept = database.prepareStatement("SELECT courier_inbox.accept(?, ?)")) {
                accept.setString(1, CONSUMER);
                accept.setObject(2, UUID.fromString(id));
                var answer = accept.executeQuery();
                answer.next();
                if (answer.getBoolean(1)) {
                    book(database, body);
                } else {
                    System.out.println("came again: " + id);
                }
            }
            database.commit();
        }
    }

    static int answer(HttpExchange request) throws Exception {
        byte[] body = request.getRequestBody().readNBytes(MAX_BODY + 1);
        if (body.length > MAX_BODY) {
            return 413;
        } else if (!isSigned(request.getRequestHeaders(), body)) {
            return 401;
        }
        String id = header(request.getRequestHeaders(), "id");
        try {
            process(id, body);
            return 204;
        } catch (SQLTransientConnectionException down) {
            return 503; // pgcourier waits, and charges the event nothing
        } catch (Exception error) {
            System.out.println(id + ": " + error);
            return 500; // this event is in trouble: it comes again, and ends as a dead letter
        }
    }

    public static void main(String[] arguments) throws Exception {
        URI url = URI.create(setting("DATABASE_URL", "")); // postgresql://user:password@host:port/database
        String[] user = Optional.ofNullable(url.getUserInfo()).orElse("").split(":", 2);
        databases.setJdbcUrl("jdbc:postgresql://" + url.getRawAuthority().replaceFirst("^.*@", "") + url.getRawPath());
        databases.setUsername(user[0]);
        databases.setPassword(user.length > 1 ? user[1] : null);
        databases.setAutoCommit(false);
        databases.setMaximumPoolSize(8);
        databases.setConnectionTimeout(5000);
        databases.setInitializationFailTimeout(-1); // start although the database is away
        int port = Integer.parseInt(setting("PORT", "8480"));
        HttpServer server = HttpServer.create(new InetSocketAddress("127.0.0.1", port), 128);
        ExecutorService workers = Executors.newFixedThreadPool(16);
        server.setExecutor(workers);
        server.createContext("/", request -> {
            try (request) {
                request.sendResponseHeaders(answer(request), -1);
            } catch (Exception error) {
                System.out.println(error);
            }
        });
        Runtime.getRuntime().addShutdownHook(new Thread(() -> {
            workers.shutdown();
            try {
                workers.awaitTermination(30, TimeUnit.SECONDS);
            } catch (InterruptedException ignored) {
            }
        }));
        server.start();
    }
}
