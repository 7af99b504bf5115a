<?php
function verified(string $body, string $key): bool {
    $id = $_SERVER['HTTP_WEBHOOK_ID'] ?? '';
    $timestamp = $_SERVER['HTTP_WEBHOOK_TIMESTAMP'] ?? '';
    if (!ctype_digit($timestamp) || abs(time() - (int) $timestamp) > 300) {
        return false;
    }
    $expected = 'v1,' . base64_encode(hash_hmac('sha256', "$id.$timestamp.$body", $key, true));
    // There are two signatures while a secret is being rotated.
    foreach (explode(' ', $_SERVER['HTTP_WEBHOOK_SIGNATURE'] ?? '') as $signature) {
        if (hash_equals($expected, $signature)) {
            return true;
        }
    }
    return false;
}

$secret = getenv('WRS_WEBHOOK_SECRET');
$key = base64_decode(preg_replace('/^whsec_/', '', $secret), true);
http_response_code(verified(file_get_contents('php://input'), $key) ? 204 : 401);
