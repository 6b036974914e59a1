// Books the orders of a Redis stream: each order once, however often its event comes.
//
// The events are those of a pgcourier sink of kind redis. Any number of these may run: they are the
// workers of one consumer group. SIGTERM ends it after the event at hand.
//
// Needs .NET 10. Run: dotnet run StreamConsumer.cs
// Environment: REDIS_URL, DATABASE_URL, STREAM (events:orders.created), WORKER (the host's name),
// CLAIM_AFTER_MS (60000)
#:package Npgsql@10.0.3
#:package StackExchange.Redis@2.8.16

using System.Data;
using System.Runtime.InteropServices;
using System.Text.Json;
using Npgsql;
using StackExchange.Redis;

const string Consumer = "billing"; // the group's name, and the consumer's in the inbox

string Setting(string name, string otherwise) => Environment.GetEnvironmentVariable(name) ?? otherwise;

var streamName = Setting("STREAM", "events:orders.created");
var worker = Setting("WORKER", Environment.MachineName); // another one for each process
var claimAfterMs = long.Parse(Setting("CLAIM_AFTER_MS", "60000")); // longer than an event takes

// The change. It need not be idempotent.
async Task Book(NpgsqlConnection database, string payload)
{
    using var order = JsonDocument.Parse(payload);
    await using var insert = new NpgsqlCommand("INSERT INTO booking (order_id, cents) VALUES ($1, $2)", database);
    insert.Parameters.Add(new() { Value = order.RootElement.GetProperty("order").GetInt64() });
    insert.Parameters.Add(new() { Value = order.RootElement.GetProperty("cents").GetInt64() });
    await insert.ExecuteNonQueryAsync();
}

// Accepts the event and makes the change in one transaction: both, or neither.
async Task Process(NpgsqlConnection database, StreamEntry entry)
{
    await using var transaction = await database.BeginTransactionAsync(); // without CommitAsync() it rolls back
    await using var accept = new NpgsqlCommand("SELECT courier_inbox.accept($1, $2)", database);
    accept.Parameters.Add(new() { Value = Consumer });
    accept.Parameters.Add(new() { Value = Guid.Parse(entry["id"].ToString()) });
    if ((bool)(await accept.ExecuteScalarAsync())!) await Book(database, entry["payload"].ToString());
    else Console.WriteLine($"came again: {entry["id"]}");
    await transaction.CommitAsync();
}

// What some worker took long ago and has not acknowledged; or else what is new. The library shares one
// connection, and so has no blocking read: this one waits between two reads.
async Task<StreamEntry[]> NextEntries(IDatabase stream, CancellationToken stopping)
{
    var left = await stream.StreamAutoClaimAsync(streamName, Consumer, worker, claimAfterMs, "0-0", 100);
    if (left.ClaimedEntries.Length > 0) return left.ClaimedEntries;
    var fresh = await stream.StreamReadGroupAsync(streamName, Consumer, worker, ">", 100);
    if (fresh.Length == 0) await Task.Delay(100, stopping).ContinueWith(_ => { });
    return fresh;
}

using var stopping = new CancellationTokenSource();
void Stop(PosixSignalContext signal)
{
    signal.Cancel = true; // not at once
    stopping.Cancel();
}
using var term = PosixSignalRegistration.Create(PosixSignal.SIGTERM, Stop);
using var interrupt = PosixSignalRegistration.Create(PosixSignal.SIGINT, Stop);

var redis = new Uri(Setting("REDIS_URL", "redis://localhost:6379"));
await using var connection = await ConnectionMultiplexer.ConnectAsync($"{redis.Host}:{(redis.Port > 0 ? redis.Port : 6379)}");
var stream = connection.GetDatabase();
var url = new Uri(Setting("DATABASE_URL", "")); // postgresql://user:password@host:port/database
var user = url.UserInfo.Split(':', 2);
await using var database = new NpgsqlConnection(new NpgsqlConnectionStringBuilder
{
    Host = url.Host, Port = url.Port > 0 ? url.Port : 5432, Database = url.AbsolutePath.TrimStart('/'),
    Username = user[0], Password = user.Length > 1 ? Uri.UnescapeDataString(user[1]) : null,
}.ConnectionString);
await database.OpenAsync();
try
{
    await stream.StreamCreateConsumerGroupAsync(streamName, Consumer, "0", createStream: true);
}
catch (RedisServerException error) when (error.Message.StartsWith("BUSYGROUP")) { } // it exists

while (!stopping.IsCancellationRequested)
{
    foreach (var entry in await NextEntries(stream, stopping.Token))
    {
        if (stopping.IsCancellationRequested) break; // the rest is claimed by another worker, or by the next start
        try
        {
            await Process(database, entry);
        }
        catch (Exception error) when (database.State == ConnectionState.Open) // lost: it ends, and is started again
        {
            Console.WriteLine($"{entry["id"]} comes again later: {error.Message}");
            continue;
        }
        await stream.StreamAcknowledgeAsync(streamName, Consumer, entry.Id); // after the commit, never before
    }
}
