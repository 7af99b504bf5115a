import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpRequest.BodyPublishers;
import java.net.http.HttpResponse;
import java.net.http.HttpResponse.BodyHandlers;
import org.junit.jupiter.api.Test;

@WrsEmulator
class QuotaTest {
    private final HttpClient client = HttpClient.newHttpClient();

    private HttpResponse<String> status(WrsEmulator.Server wrs) throws Exception {
        HttpRequest request = HttpRequest.newBuilder(URI.create(wrs.url() + "/v1/system/status"))
                .header("Authorization", "Bearer " + wrs.key())
                .build();
        return client.send(request, BodyHandlers.ofString());
    }

    @Test
    void theSecondRequestIsRefusedOnceTheQuotaIsOne(WrsEmulator.Server wrs) throws Exception {
        HttpRequest setting = HttpRequest.newBuilder(URI.create(wrs.url() + "/_emulator/profile?key=" + wrs.key()))
                .header("Content-Type", "application/json")
                .method("PATCH", BodyPublishers.ofString("{\"rate_limit\":{\"requests\":1}}"))
                .build();
        assertEquals(200, client.send(setting, BodyHandlers.ofString()).statusCode());
        assertEquals(200, status(wrs).statusCode());
        assertEquals(429, status(wrs).statusCode());
    }

    @Test
    void anotherTestHasAnotherQuota(WrsEmulator.Server wrs) throws Exception {
        HttpResponse<String> answer = status(wrs);
        assertTrue(answer.headers().firstValueAsLong("X-RateLimit-Remaining").getAsLong() > 90, answer.toString());
    }
}
