// Books the orders that come as webhooks: each order once, however often its event comes.
//
// The requests are those of a pgcourier sink of kind http with a secret (Standard Webhooks). SIGTERM
// ends it when the requests at hand are answered. In an application of yours, copy Webhook and
// Process(); the body must be the bytes that came.
//
// Needs .NET 10. Run: dotnet run WebhookReceiver.cs
// Environment: WEBHOOK_SECRET, DATABASE_URL, PORT (8480), WEBHOOK_HEADER_PREFIX (webhook-)
#:sdk Microsoft.NET.Sdk.Web
#:package Npgsql@10.0.3

using System.Security.Cryptography;
using System.Text;
using System.Text.Json;
using Npgsql;

const string Consumer = "billing";
const int MaxBody = 1 << 20;

string Setting(string name, string otherwise) => Environment.GetEnvironmentVariable(name) ?? otherwise;

var prefix = Setting("WEBHOOK_HEADER_PREFIX", "webhook-");
var secret = Setting("WEBHOOK_SECRET", "");
var key = Convert.FromBase64String(secret.StartsWith("whsec_") ? secret[6..] : secret);
if (key.Length == 0) throw new InvalidOperationException("WEBHOOK_SECRET is empty");

var url = new Uri(Setting("DATABASE_URL", "")); // postgresql://user:password@host:port/database
var user = url.UserInfo.Split(':', 2);
await using var databases = NpgsqlDataSource.Create(new NpgsqlConnectionStringBuilder
{
    Host = url.Host, Port = url.Port > 0 ? url.Port : 5432, Database = url.AbsolutePath.TrimStart('/'),
    Username = user[0], Password = user.Length > 1 ? Uri.UnescapeDataString(user[1]) : null, Timeout = 5,
});

// The change. It need not be idempotent.
async Task Book(NpgsqlConnection database, byte[] body)
{
    using var order = JsonDocument.Parse(body);
    await using var insert = new NpgsqlCommand("INSERT INTO booking (order_id, cents) VALUES ($1, $2)", database);
    insert.Parameters.Add(new() { Value = order.RootElement.GetProperty("order").GetInt64() });
    insert.Parameters.Add(new() { Value = order.RootElement.GetProperty("cents").GetInt64() });
    await insert.ExecuteNonQueryAsync();
}

// Accepts the event and makes the change in one transaction: both, or neither.
async Task Process(NpgsqlConnection database, string id, byte[] body)
{
    await using var transaction = await database.BeginTransactionAsync(); // without CommitAsync() it rolls back
    await using var accept = new NpgsqlCommand("SELECT courier_inbox.accept($1, $2)", database);
    accept.Parameters.Add(new() { Value = Consumer });
    accept.Parameters.Add(new() { Value = Guid.Parse(id) });
    if ((bool)(await accept.ExecuteScalarAsync())!) await Book(database, body);
    else Console.WriteLine($"came again: {id}");
    await transaction.CommitAsync();
}

async Task<int> Answer(HttpRequest request)
{
    using var buffer = new MemoryStream();
    await request.Body.CopyToAsync(buffer); // Kestrel answers 413 to a longer body
    var body = buffer.ToArray();
    string Header(string name) => request.Headers[prefix + name].ToString();
    var id = Header("id");
    if (!Webhook.IsSigned(key, id, Header("timestamp"), Header("signature"), body)) return 401;
    try
    {
        await using var database = await databases.OpenConnectionAsync();
        await Process(database, id, body);
        return 204;
    }
    catch (NpgsqlException error) when (error.IsTransient && error is not PostgresException)
    {
        return 503; // the database is away: pgcourier waits, and charges the event nothing
    }
    catch (Exception error)
    {
        Console.WriteLine($"{id}: {error.Message}");
        return 500; // this event is in trouble: it comes again, and ends as a dead letter
    }
}

var builder = WebApplication.CreateBuilder();
builder.Logging.SetMinimumLevel(LogLevel.Warning);
builder.WebHost.ConfigureKestrel(options => options.Limits.MaxRequestBodySize = MaxBody);
var application = builder.Build();
application.MapPost("/{**path}", async (HttpContext context) =>
{
    context.Response.StatusCode = await Answer(context.Request);
});
application.Run($"http://127.0.0.1:{Setting("PORT", "8480")}");

static class Webhook
{
    const long ToleranceSeconds = 300;

    // Whether one of the signatures is that of our secret, for these bytes and about this time.
    public static bool IsSigned(byte[] key, string id, string sentAt, string signatures, byte[] body)
    {
        var now = DateTimeOffset.UtcNow.ToUnixTimeSeconds();
        if (!long.TryParse(sentAt, out var seconds) || seconds < now - ToleranceSeconds || seconds > now + ToleranceSeconds)
            return false;
        using var mac = new HMACSHA256(key);
        var signed = Encoding.UTF8.GetBytes($"{id}.{sentAt}.").Concat(body).ToArray();
        var wanted = Encoding.UTF8.GetBytes("v1," + Convert.ToBase64String(mac.ComputeHash(signed)));
        // While the sender changes its secret, there are two. FixedTimeEquals() compares in constant time.
        return signatures.Split(' ')
            .Any(given => CryptographicOperations.FixedTimeEquals(Encoding.UTF8.GetBytes(given), wanted));
    }
}
