// Java's HttpClient.
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;

public class HttpClientRetry {
    static final HttpClient CLIENT = HttpClient.newBuilder().version(HttpClient.Version.HTTP_1_1).build();

    static void send(HttpRequest.Builder request, String path) throws Exception {
        request.uri(URI.create(System.getenv("WRS_BASE_URL") + path)).header("Authorization", "Bearer " + System.getenv("WRS_API_KEY"));
        HttpRequest built = request.build();
        for (;;) {
            HttpResponse<String> answer = CLIENT.send(built, HttpResponse.BodyHandlers.ofString());
            if (answer.statusCode() == 200) return;
            if (answer.statusCode() != 429) throw new IllegalStateException(answer.body());
            Thread.sleep(1000 * Long.parseLong(answer.headers().firstValue("Retry-After").get()));
        }
    }

    public static void main(String[] arguments) throws Exception {
        for (int i = 0; i < 4; i++) send(HttpRequest.newBuilder().GET(), "/v1/system/status");
        String hook = "{\"url\":\"https://a.sink.localhost/hooks\",\"events\":[\"workflow.completed\"]}";
        send(HttpRequest.newBuilder().header("Content-Type", "application/json").POST(HttpRequest.BodyPublishers.ofString(hook)), "/v1/events/subscribe");
    }
}
