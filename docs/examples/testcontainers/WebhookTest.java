// A webhook from the emulator in a container to this process: org.testcontainers:testcontainers-junit-jupiter
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.sun.net.httpserver.HttpServer;
import java.net.InetSocketAddress;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpRequest.BodyPublishers;
import java.net.http.HttpResponse.BodyHandlers;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.testcontainers.containers.GenericContainer;
import org.testcontainers.containers.wait.strategy.Wait;

class WebhookTest {
    record Delivery(String signature, String body) {}

    static final String TOKEN = "only-for-this-run";
    static final String KEY = "sk_test_java_webhook";
    static final BlockingQueue<Delivery> RECEIVED = new LinkedBlockingQueue<>();
    static HttpServer receiver;
    static GenericContainer<?> wrs;

    @BeforeAll
    static void start() throws Exception {
        // On all addresses: containers do not reach others.
        receiver = HttpServer.create(new InetSocketAddress(0), 0);
        receiver.createContext("/hooks", exchange -> {
            String body = new String(exchange.getRequestBody().readAllBytes());
            RECEIVED.add(new Delivery(exchange.getRequestHeaders().getFirst("webhook-signature"), body));
            exchange.sendResponseHeaders(204, -1);
            exchange.close();
        });
        receiver.start();
        String here = "http://host.docker.internal:" + receiver.getAddress().getPort();
        wrs = new GenericContainer<>("wrs-emulator")
                .withExposedPorts(9770)
                .withEnv("WRS_EMULATOR_CONTROL_TOKEN", TOKEN)
                .withEnv("WRS_EMULATOR_FORWARD", "https://app.example.com=" + here)
                .withExtraHost("host.docker.internal", "host-gateway")
                .waitingFor(Wait.forHttp("/_emulator/health").forPort(9770));
        wrs.start();
    }

    @AfterAll
    static void stop() {
        wrs.stop();
        receiver.stop(0);
    }

    static void post(String path, String bearer, String body) throws Exception {
        URI url = URI.create("http://" + wrs.getHost() + ":" + wrs.getMappedPort(9770) + path);
        HttpRequest request = HttpRequest.newBuilder(url)
                .header("Authorization", "Bearer " + bearer)
                .header("Content-Type", "application/json")
                .POST(BodyPublishers.ofString(body))
                .build();
        assertEquals(200, HttpClient.newHttpClient().send(request, BodyHandlers.ofString()).statusCode());
    }

    @Test
    void aWebhookArrives() throws Exception {
        post("/v1/events/subscribe", KEY, "{\"url\":\"https://app.example.com/hooks\",\"events\":[\"workflow.completed\"]}");
        post("/_emulator/events", TOKEN, "{\"key\":\"" + KEY + "\",\"type\":\"workflow.completed\"}");
        Delivery delivery = RECEIVED.poll(10, TimeUnit.SECONDS);
        assertTrue(delivery.signature().startsWith("v1,"));
        assertTrue(delivery.body().contains("\"type\":\"workflow.completed\""));
    }
}
