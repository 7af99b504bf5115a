<?php
$body = json_encode(['url' => 'https://a.sink.localhost/', 'events' => ['workflow.completed'], 'secret' => 'whsec_c2VjcmV0']);
$headers = ['Authorization: Bearer ' . getenv('WRS_API_KEY'), 'Content-Type: application/json'];
$options = ['http' => ['method' => 'POST', 'header' => $headers, 'content' => $body, 'ignore_errors' => true]];
file_get_contents(getenv('WRS_BASE_URL') . '/v1/events/subscribe', false, stream_context_create($options));
