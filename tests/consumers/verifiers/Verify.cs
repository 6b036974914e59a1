// Judges a request of a relay by the class Webhook of docs/consumers/csharp/WebhookReceiver.cs, as
// verify.py does with other people's packages: Verify FOLDER NEWEST OLDER.
using System;
using System.Collections.Generic;
using System.IO;
using System.Linq;
using System.Security.Cryptography;
using System.Text;

class Request
{
    public byte[] Body;
    public Dictionary<string, string> Headers;

    static byte[] Key(string secret) { return Convert.FromBase64String(secret.Substring("whsec_".Length)); }

    public bool Passes(string secret)
    {
        return Webhook.IsSigned(
            Key(secret), Headers["webhook-id"], Headers["webhook-timestamp"], Headers["webhook-signature"], Body);
    }

    public Request With(string header, string value)
    {
        var changed = new Dictionary<string, string>(Headers);
        changed[header] = value;
        return new Request { Body = Body, Headers = changed };
    }

    public Request SentAt(long seconds, string secret)
    {
        byte[] signed = Encoding.UTF8.GetBytes(Headers["webhook-id"] + "." + seconds + ".").Concat(Body).ToArray();
        return With("webhook-timestamp", seconds.ToString()).With("webhook-signature",
            "v1," + Convert.ToBase64String(new HMACSHA256(Key(secret)).ComputeHash(signed)));
    }
}

static class Verify
{
    const string Base64 = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    static int refused;

    static void Expect(bool passes, Request request, string secret, string what)
    {
        if (request.Passes(secret) != passes)
            throw new Exception((passes ? "refused with " : "passes with ") + what);
        if (!passes) refused++;
    }

    // Each letter or digit alone, also the last of a signature, of which two bits say nothing.
    static IEnumerable<string> Changed(string text)
    {
        for (int i = 0; i < text.Length; i++)
        {
            int place = Base64.IndexOf(text[i]);
            if (place >= 0) yield return text.Substring(0, i) + Base64[(place + 32) % 64] + text.Substring(i + 1);
        }
    }

    static void Main(string[] arguments)
    {
        string[] secrets = arguments.Skip(1).ToArray();
        var came = new Request
        {
            Body = File.ReadAllBytes(arguments[0] + "/standard.body"),
            Headers = File.ReadAllLines(arguments[0] + "/standard.headers").Where(line => line.Contains(":")).ToDictionary(
                line => line.Substring(0, line.IndexOf(':')).ToLowerInvariant(), line => line.Substring(line.IndexOf(':') + 1).Trim()),
        };
        string[] signatures = came.Headers["webhook-signature"].Split(' ');

        Expect(false, came, "whsec_bm8gc2VjcmV0IG9mIG91cnMsIG9mIGNvdXJzZQ==", "a foreign secret");
        for (int i = 0; i < secrets.Length; i++)
        {
            Expect(true, came, secrets[i], "both signatures");
            Expect(true, came.With("webhook-signature", signatures[i]), secrets[i], "its own");
            Expect(false, came.With("webhook-signature", signatures[1 - i]), secrets[i], "the other's");
            foreach (string text in Changed(signatures[i]))
                Expect(false, came.With("webhook-signature", text), secrets[i], text);
        }
        for (int i = 0; i < came.Body.Length; i++)
        {
            var changed = new Request { Body = (byte[])came.Body.Clone(), Headers = came.Headers };
            changed.Body[i] ^= 1;
            Expect(false, changed, secrets[0], "byte " + i + " changed");
        }
        foreach (string header in new[] { "webhook-id", "webhook-timestamp" })
            foreach (string text in Changed(came.Headers[header]).Concat(new[] { "", came.Headers[header] + "0" }))
                Expect(false, came.With(header, text), secrets[0], header + ": " + text);
        long now = DateTimeOffset.UtcNow.ToUnixTimeSeconds();
        foreach (long off in new long[] { 0, -200, 200, -400, 400 })
            Expect(Math.Abs(off) < 300, came.SentAt(now + off, secrets[0]), secrets[0], "a time " + off + " s off");
        Console.WriteLine("standard: verified by {0}, refused {1} changed ones", secrets.Length, refused);
    }
}
