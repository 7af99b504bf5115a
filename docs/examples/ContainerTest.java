import static org.junit.jupiter.api.Assertions.assertEquals;

import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse.BodyHandlers;
import org.junit.jupiter.api.Test;
import org.testcontainers.containers.GenericContainer;
import org.testcontainers.containers.wait.strategy.Wait;
import org.testcontainers.junit.jupiter.Container;
import org.testcontainers.junit.jupiter.Testcontainers;

@Testcontainers
class ContainerTest {
    @Container
    static final GenericContainer<?> WRS = new GenericContainer<>("wrs-emulator")
            .withExposedPorts(9770)
            .withEnv("WRS_EMULATOR_CONTROL_TOKEN", "only-for-this-run")
            .waitingFor(Wait.forHealthcheck());

    @Test
    void status() throws Exception {
        URI url = URI.create("http://" + WRS.getHost() + ":" + WRS.getMappedPort(9770) + "/v1/system/status");
        HttpRequest request = HttpRequest.newBuilder(url).header("Authorization", "Bearer sk_test_java_status").build();
        assertEquals(200, HttpClient.newHttpClient().send(request, BodyHandlers.ofString()).statusCode());
    }
}
