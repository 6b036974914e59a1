<?php

// Books the orders of a Redis stream: each order once, however often its event comes.
//
// The events are those of a pgcourier sink of kind redis. Any number of these may run: they are the
// workers of one consumer group. SIGTERM ends it after the event at hand.
//
// Needs PHP 8.1 with pdo_pgsql, redis and pcntl. Run: php stream_consumer.php
// Environment: REDIS_URL, DATABASE_URL, STREAM (events:orders.created), WORKER (the host's name),
// CLAIM_AFTER_MS (60000)

declare(strict_types=1);

const CONSUMER = 'billing'; // the group's name, and the consumer's in the inbox
define('STREAM', getenv('STREAM') ?: 'events:orders.created');
define('WORKER', getenv('WORKER') ?: gethostname()); // another one for each process
define('CLAIM_AFTER_MS', (int) (getenv('CLAIM_AFTER_MS') ?: 60000)); // longer than an event takes

/** From postgresql://user:password@host:port/database. */
function connect(string $url): PDO
{
    $parts = array_map(fn ($part) => is_string($part) ? rawurldecode($part) : $part, parse_url($url));
    $dsn = sprintf('pgsql:host=%s;port=%d;dbname=%s', $parts['host'], $parts['port'] ?? 5432, ltrim($parts['path'], '/'));
    return new PDO($dsn, $parts['user'] ?? null, $parts['pass'] ?? null, [PDO::ATTR_TIMEOUT => 5]);
}

/** The change. It need not be idempotent. */
function book(PDO $database, array $event): void
{
    $order = json_decode($event['payload'], flags: JSON_THROW_ON_ERROR);
    $insert = $database->prepare('INSERT INTO booking (order_id, cents) VALUES (?, ?)');
    $insert->execute([$order->order, $order->cents]);
}

/** Accepts the event and makes the change in one transaction: both, or neither. */
function process(PDO $database, array $event): void
{
    $database->beginTransaction();
    try {
        $accept = $database->prepare('SELECT courier_inbox.accept(?, ?)');
        $accept->execute([CONSUMER, $event['id']]);
        if ($accept->fetchColumn()) {
            book($database, $event);
        } else {
            echo "came again: {$event['id']}\n";
        }
        $database->commit();
    } catch (Throwable $error) {
        $database->rollBack();
        throw $error;
    }
}

/** An error of Redis is an answer here, not an exception. */
function expect(Redis $stream, mixed $answer): mixed
{
    if ($answer === false && $stream->getLastError() !== null) {
        throw new RuntimeException($stream->getLastError());
    }
    return $answer;
}

/** What some worker took long ago and has not acknowledged; or else what is new. */
function nextEntries(Redis $stream): array
{
    $claim = ['XAUTOCLAIM', STREAM, CONSUMER, WORKER, CLAIM_AFTER_MS, '0-0', 'COUNT', 100]; // xAutoClaim() is new in 6.0
    $left = [];
    foreach (expect($stream, $stream->rawCommand(...$claim))[1] as [$id, $fields]) {
        $left[$id] = array_column(array_chunk($fields, 2), 1, 0);
    }
    if ($left) {
        return $left;
    }
    $new = expect($stream, $stream->xReadGroup(CONSUMER, WORKER, [STREAM => '>'], 100, 1000));
    return $new[STREAM] ?? [];
}

$isStopping = false;
pcntl_async_signals(true);
foreach ([SIGTERM, SIGINT] as $number) {
    pcntl_signal($number, function () use (&$isStopping) { $isStopping = true; });
}
// A lost connection ends the process: systemd or the like starts it again.
$redis = parse_url(getenv('REDIS_URL') ?: 'redis://localhost');
$stream = new Redis();
$stream->connect($redis['host'], $redis['port'] ?? 6379);
if (isset($redis['pass'])) {
    $stream->auth(array_filter([$redis['user'] ?? '', $redis['pass']]));
}
$database = connect(getenv('DATABASE_URL'));
$stream->xGroup('CREATE', STREAM, CONSUMER, '0', true);
if (!str_starts_with($stream->getLastError() ?? 'BUSYGROUP', 'BUSYGROUP')) { // it exists
    throw new RuntimeException($stream->getLastError());
}
$stream->clearLastError();
while (!$isStopping) {
    foreach (nextEntries($stream) as $entryId => $event) {
        if ($isStopping) {
            break; // the rest is claimed by another worker, or by the next start
        }
        try {
            process($database, $event);
        } catch (Throwable $error) {
            $database->query('SELECT 1'); // fails if the connection is lost, and that ends the process
            echo "{$event['id']} comes again later: {$error->getMessage()}\n";
            continue;
        }
        expect($stream, $stream->xAck(STREAM, CONSUMER, [$entryId])); // after the commit, never before
    }
}
