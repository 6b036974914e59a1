<?php

// Books the orders that come as webhooks: each order once, however often its event comes.
//
// The requests are those of a pgcourier sink of kind http with a secret (Standard Webhooks). In a
// framework, copy isSigned() and process(); the body must be the bytes that came.
//
// Needs PHP 8.1 with pdo_pgsql. Run it behind PHP-FPM; or, to try it: php -S 127.0.0.1:8480 webhook_receiver.php
// Environment: WEBHOOK_SECRET, DATABASE_URL, WEBHOOK_HEADER_PREFIX (webhook-)

declare(strict_types=1);

const CONSUMER = 'billing';
const TOLERANCE_S = 300;
const MAX_BODY = 1 << 20;

function header_value(string $name): string
{
    $prefix = getenv('WEBHOOK_HEADER_PREFIX') ?: 'webhook-';
    return $_SERVER['HTTP_' . strtoupper(strtr($prefix . $name, '-', '_'))] ?? '';
}

/** Whether one of the signatures is that of our secret, for these bytes and about this time. */
function isSigned(string $body): bool
{
    $sentAt = header_value('timestamp');
    if (!preg_match('/^\d{1,12}$/D', $sentAt) || abs(time() - (int) $sentAt) > TOLERANCE_S) {
        return false;
    }
    $key = base64_decode(preg_replace('/^whsec_/', '', getenv('WEBHOOK_SECRET') ?: ''), true);
    if ($key === false || $key === '') {
        throw new RuntimeException('WEBHOOK_SECRET is no whsec_ and base64');
    }
    $signed = header_value('id') . ".$sentAt.$body";
    $wanted = 'v1,' . base64_encode(hash_hmac('sha256', $signed, $key, true));
    $isFound = false;
    foreach (explode(' ', header_value('signature')) as $given) { // while the sender changes its secret: two
        $isFound = hash_equals($wanted, $given) || $isFound; // in constant time
    }
    return $isFound;
}

/** From postgresql://user:password@host:port/database. */
function connect(string $url): PDO
{
    $parts = array_map(fn ($part) => is_string($part) ? rawurldecode($part) : $part, parse_url($url));
    $dsn = sprintf('pgsql:host=%s;port=%d;dbname=%s', $parts['host'], $parts['port'] ?? 5432, ltrim($parts['path'], '/'));
    return new PDO($dsn, $parts['user'] ?? null, $parts['pass'] ?? null, [PDO::ATTR_TIMEOUT => 5]);
}

/** The change. It need not be idempotent. */
function book(PDO $database, string $body): void
{
    $order = json_decode($body, flags: JSON_THROW_ON_ERROR);
    $insert = $database->prepare('INSERT INTO booking (order_id, cents) VALUES (?, ?)');
    $insert->execute([$order->order, $order->cents]);
}

/** Accepts the event and makes the change in one transaction: both, or neither. */
function process(PDO $database, string $id, string $body): void
{
    $database->beginTransaction(); // rolled back when the connection goes, if nothing commits it
    $accept = $database->prepare('SELECT courier_inbox.accept(?, ?)');
    $accept->execute([CONSUMER, $id]);
    if ($accept->fetchColumn()) {
        book($database, $body);
    } else {
        error_log("came again: $id");
    }
    $database->commit();
}

function answer(): int
{
    $body = file_get_contents('php://input', length: MAX_BODY + 1);
    if (strlen($body) > MAX_BODY) {
        return 413;
    }
    if (!isSigned($body)) {
        return 401;
    }
    try {
        $database = connect(getenv('DATABASE_URL'));
    } catch (PDOException) {
        return 503; // we are down: pgcourier waits, and charges the event nothing
    }
    try {
        process($database, header_value('id'), $body);
        return 204;
    } catch (Throwable $error) {
        error_log(header_value('id') . ': ' . $error->getMessage());
        return 500; // this event is in trouble: it comes again, and ends as a dead letter
    }
}

http_response_code(answer());
