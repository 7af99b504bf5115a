import com.sun.net.httpserver.HttpExchange;
import com.sun.net.httpserver.HttpServer;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.security.GeneralSecurityException;
import java.security.MessageDigest;
import java.time.Instant;
import java.util.Base64;
import javax.crypto.Mac;
import javax.crypto.spec.SecretKeySpec;

public class Receiver {
    static final byte[] KEY =
            Base64.getDecoder().decode(System.getenv("WRS_WEBHOOK_SECRET").replaceFirst("^whsec_", ""));

    public static void main(String[] arguments) throws IOException {
        HttpServer server = HttpServer.create(new InetSocketAddress("127.0.0.1", 3000), 0);
        server.createContext("/", exchange -> {
            byte[] body = exchange.getRequestBody().readAllBytes();
            exchange.sendResponseHeaders(verified(exchange, body) ? 204 : 401, -1);
            exchange.close();
        });
        server.start();
        System.out.println("listening");
    }

    static boolean verified(HttpExchange exchange, byte[] body) {
        try {
            String id = exchange.getRequestHeaders().getFirst("webhook-id");
            String timestamp = exchange.getRequestHeaders().getFirst("webhook-timestamp");
            String signatures = exchange.getRequestHeaders().getFirst("webhook-signature");
            if (Math.abs(Instant.now().getEpochSecond() - Long.parseLong(timestamp)) > 300) return false;
            ByteArrayOutputStream content = new ByteArrayOutputStream();
            content.writeBytes((id + "." + timestamp + ".").getBytes("UTF-8"));
            content.writeBytes(body);
            Mac mac = Mac.getInstance("HmacSHA256");
            mac.init(new SecretKeySpec(KEY, "HmacSHA256"));
            String expected = "v1," + Base64.getEncoder().encodeToString(mac.doFinal(content.toByteArray()));
            boolean found = false;
            // There are two signatures while a secret is being rotated.
            for (String signature : signatures.split(" ")) {
                found |= MessageDigest.isEqual(expected.getBytes("UTF-8"), signature.getBytes("UTF-8"));
            }
            return found;
        } catch (GeneralSecurityException | IOException | RuntimeException absentOrMalformed) {
            return false;
        }
    }
}
