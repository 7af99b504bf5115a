<?php
$options = ['http' => ['header' => 'Authorization: Bearer sk_live_0123456789abcdef', 'ignore_errors' => true]];
file_get_contents(getenv('WRS_BASE_URL') . '/v1/system/status', false, stream_context_create($options));
