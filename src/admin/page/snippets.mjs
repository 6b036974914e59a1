/*
 * Code that verifies a request, in the languages of most servers; for the scheme and so with the headers that the
 * sender signs with. A function of the headers (names in lower case), the body's bytes and the secret. Pure;
 * tests/page/snippets.test.mjs runs them.
 */
const standard = {
  Python: `import base64, hashlib, hmac, time

def verify(headers, body, secret):
    """headers: names in lower case; body: bytes, as they came; secret: "whsec_..." """
    identity, sent = headers["webhook-id"], headers["webhook-timestamp"]
    if abs(time.time() - int(sent)) > 300:
        return False  # too old: somebody may be sending it again
    key = base64.b64decode(secret.removeprefix("whsec_"))
    mac = hmac.new(key, f"{identity}.{sent}.".encode() + body, hashlib.sha256)
    expected = "v1," + base64.b64encode(mac.digest()).decode()
    return any(hmac.compare_digest(expected, each) for each in headers["webhook-signature"].split())
`,
  "Node.js": `import { createHmac, timingSafeEqual } from "node:crypto";

// headers: names in lower case; body: a Buffer, as it came; secret: "whsec_..."
export function verify(headers, body, secret) {
  const id = headers["webhook-id"], sent = headers["webhook-timestamp"];
  if (!(Math.abs(Date.now() / 1000 - Number(sent)) <= 300)) return false; // somebody may be sending it again
  const key = Buffer.from(secret.replace(/^whsec_/, ""), "base64");
  const expected = createHmac("sha256", key).update(\`\${id}.\${sent}.\`).update(body).digest();
  return headers["webhook-signature"].split(" ").some((each) => {
    const given = Buffer.from(each.replace(/^v1,/, ""), "base64");
    return given.length === expected.length && timingSafeEqual(given, expected);
  });
}
`,
  Go: `package webhook

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// Verify: body is as it came; secret is "whsec_...".
func Verify(headers http.Header, body []byte, secret string) bool {
	id, sent := headers.Get("webhook-id"), headers.Get("webhook-timestamp")
	seconds, err := strconv.ParseInt(sent, 10, 64)
	if err != nil || time.Since(time.Unix(seconds, 0)).Abs() > 5*time.Minute {
		return false // somebody may be sending it again
	}
	key, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(secret, "whsec_"))
	if err != nil {
		return false
	}
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(id + "." + sent + "."))
	mac.Write(body)
	expected := "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil))
	for _, each := range strings.Fields(headers.Get("webhook-signature")) {
		if hmac.Equal([]byte(expected), []byte(each)) {
			return true
		}
	}
	return false
}
`,
  Java: `import java.security.MessageDigest;
import java.util.Base64;
import java.util.Map;
import javax.crypto.Mac;
import javax.crypto.spec.SecretKeySpec;

public final class Webhook {
    /** headers: names in lower case; body: as it came; secret: "whsec_..." */
    public static boolean verify(Map<String, String> headers, byte[] body, String secret) throws Exception {
        String id = headers.get("webhook-id"), sent = headers.get("webhook-timestamp");
        if (Math.abs(System.currentTimeMillis() / 1000 - Long.parseLong(sent)) > 300) {
            return false; // somebody may be sending it again
        }
        Mac mac = Mac.getInstance("HmacSHA256");
        mac.init(new SecretKeySpec(Base64.getDecoder().decode(secret.replaceFirst("^whsec_", "")), "HmacSHA256"));
        mac.update((id + "." + sent + ".").getBytes("UTF-8"));
        byte[] expected = ("v1," + Base64.getEncoder().encodeToString(mac.doFinal(body))).getBytes("UTF-8");
        for (String each : headers.get("webhook-signature").split(" ")) {
            if (MessageDigest.isEqual(expected, each.getBytes("UTF-8"))) {
                return true;
            }
        }
        return false;
    }
}
`,
  PHP: `<?php
// $headers: names in lower case; $body: as it came (php://input); $secret: "whsec_..."
function verify(array $headers, string $body, string $secret): bool
{
    $id = $headers['webhook-id'];
    $sent = $headers['webhook-timestamp'];
    if (abs(time() - (int) $sent) > 300) {
        return false; // somebody may be sending it again
    }
    $key = base64_decode(preg_replace('/^whsec_/', '', $secret));
    $expected = 'v1,' . base64_encode(hash_hmac('sha256', "$id.$sent.$body", $key, true));
    foreach (explode(' ', $headers['webhook-signature']) as $each) {
        if (hash_equals($expected, $each)) {
            return true;
        }
    }
    return false;
}
`,
  Ruby: `require "base64"
require "openssl"

# headers: names in lower case; body: as it came; secret: "whsec_..."
def verify(headers, body, secret)
  id, sent = headers["webhook-id"], headers["webhook-timestamp"]
  return false if (Time.now.to_i - sent.to_i).abs > 300 # somebody may be sending it again

  key = Base64.decode64(secret.delete_prefix("whsec_"))
  expected = "v1," + Base64.strict_encode64(OpenSSL::HMAC.digest("SHA256", key, "#{id}.#{sent}.".b + body.b))
  headers["webhook-signature"].split(" ").any? do |each|
    each.bytesize == expected.bytesize && OpenSSL.fixed_length_secure_compare(each, expected)
  end
end
`,
  "C#": `using System;
using System.Collections.Generic;
using System.Linq;
using System.Security.Cryptography;
using System.Text;

public static class Webhook
{
    /// <summary>headers: names in lower case; body: as it came; secret: "whsec_..."</summary>
    public static bool Verify(IReadOnlyDictionary<string, string> headers, byte[] body, string secret)
    {
        string id = headers["webhook-id"], sent = headers["webhook-timestamp"];
        if (Math.Abs(DateTimeOffset.UtcNow.ToUnixTimeSeconds() - long.Parse(sent)) > 300)
            return false; // somebody may be sending it again
        string text = secret.StartsWith("whsec_") ? secret.Substring(6) : secret;
        using var mac = new HMACSHA256(Convert.FromBase64String(text));
        byte[] signed = Encoding.UTF8.GetBytes(id + "." + sent + ".").Concat(body).ToArray();
        byte[] expected = Encoding.UTF8.GetBytes("v1," + Convert.ToBase64String(mac.ComputeHash(signed)));
        return headers["webhook-signature"].Split(' ')
            .Any(each => CryptographicOperations.FixedTimeEquals(expected, Encoding.UTF8.GetBytes(each)));
    }
}
`,
};

const stripe = {
  Python: `import hashlib, hmac, time

def verify(headers, body, secret):
    """headers: names in lower case; body: bytes, as they came"""
    parts = [part.split("=", 1) for part in headers["stripe-signature"].split(",")]
    sent = next(value for name, value in parts if name == "t")
    if abs(time.time() - int(sent)) > 300:
        return False  # too old: somebody may be sending it again
    expected = hmac.new(secret.encode(), f"{sent}.".encode() + body, hashlib.sha256).hexdigest()
    return any(name == "v1" and hmac.compare_digest(expected, value) for name, value in parts)
`,
  "Node.js": `import { createHmac, timingSafeEqual } from "node:crypto";

// headers: names in lower case; body: a Buffer, as it came
export function verify(headers, body, secret) {
  const parts = headers["stripe-signature"].split(",").map((part) => part.split("="));
  const sent = parts.find(([name]) => name === "t")[1];
  if (!(Math.abs(Date.now() / 1000 - Number(sent)) <= 300)) return false; // somebody may be sending it again
  const expected = createHmac("sha256", secret).update(\`\${sent}.\`).update(body).digest();
  return parts.some(([name, value]) => {
    const given = Buffer.from(value, "hex");
    return name === "v1" && given.length === expected.length && timingSafeEqual(given, expected);
  });
}
`,
  Go: `package webhook

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// Verify: body is as it came.
func Verify(headers http.Header, body []byte, secret string) bool {
	sent, given := "", []string{}
	for _, part := range strings.Split(headers.Get("Stripe-Signature"), ",") {
		name, value, _ := strings.Cut(part, "=")
		if name == "t" {
			sent = value
		} else if name == "v1" {
			given = append(given, value)
		}
	}
	seconds, err := strconv.ParseInt(sent, 10, 64)
	if err != nil || time.Since(time.Unix(seconds, 0)).Abs() > 5*time.Minute {
		return false // somebody may be sending it again
	}
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write([]byte(sent + "."))
	mac.Write(body)
	expected := hex.EncodeToString(mac.Sum(nil))
	for _, each := range given {
		if hmac.Equal([]byte(expected), []byte(each)) {
			return true
		}
	}
	return false
}
`,
  Java: `import java.security.MessageDigest;
import java.util.Map;
import javax.crypto.Mac;
import javax.crypto.spec.SecretKeySpec;

public final class Webhook {
    /** headers: names in lower case; body: as it came */
    public static boolean verify(Map<String, String> headers, byte[] body, String secret) throws Exception {
        String[] parts = headers.get("stripe-signature").split(",");
        String sent = "0";
        for (String part : parts) {
            if (part.startsWith("t=")) {
                sent = part.substring(2);
            }
        }
        if (Math.abs(System.currentTimeMillis() / 1000 - Long.parseLong(sent)) > 300) {
            return false; // somebody may be sending it again
        }
        Mac mac = Mac.getInstance("HmacSHA256");
        mac.init(new SecretKeySpec(secret.getBytes("UTF-8"), "HmacSHA256"));
        mac.update((sent + ".").getBytes("UTF-8"));
        StringBuilder expected = new StringBuilder("v1=");
        for (byte each : mac.doFinal(body)) {
            expected.append(String.format("%02x", each));
        }
        for (String part : parts) {
            if (MessageDigest.isEqual(expected.toString().getBytes("UTF-8"), part.getBytes("UTF-8"))) {
                return true;
            }
        }
        return false;
    }
}
`,
  PHP: `<?php
// $headers: names in lower case; $body: as it came (php://input)
function verify(array $headers, string $body, string $secret): bool
{
    $parts = explode(',', $headers['stripe-signature']);
    $sent = '0';
    foreach ($parts as $part) {
        if (str_starts_with($part, 't=')) {
            $sent = substr($part, 2);
        }
    }
    if (abs(time() - (int) $sent) > 300) {
        return false; // somebody may be sending it again
    }
    $expected = 'v1=' . hash_hmac('sha256', "$sent.$body", $secret);
    foreach ($parts as $part) {
        if (hash_equals($expected, $part)) {
            return true;
        }
    }
    return false;
}
`,
  Ruby: `require "openssl"

# headers: names in lower case; body: as it came
def verify(headers, body, secret)
  parts = headers["stripe-signature"].split(",")
  sent = parts.find { |part| part.start_with?("t=") }.to_s.delete_prefix("t=")
  return false if (Time.now.to_i - sent.to_i).abs > 300 # somebody may be sending it again

  expected = "v1=" + OpenSSL::HMAC.hexdigest("SHA256", secret, "#{sent}.".b + body.b)
  parts.any? { |part| part.bytesize == expected.bytesize && OpenSSL.fixed_length_secure_compare(part, expected) }
end
`,
  "C#": `using System;
using System.Collections.Generic;
using System.Linq;
using System.Security.Cryptography;
using System.Text;

public static class Webhook
{
    /// <summary>headers: names in lower case; body: as it came</summary>
    public static bool Verify(IReadOnlyDictionary<string, string> headers, byte[] body, string secret)
    {
        string[] parts = headers["stripe-signature"].Split(',');
        string sent = parts.First(part => part.StartsWith("t=")).Substring(2);
        if (Math.Abs(DateTimeOffset.UtcNow.ToUnixTimeSeconds() - long.Parse(sent)) > 300)
            return false; // somebody may be sending it again
        using var mac = new HMACSHA256(Encoding.UTF8.GetBytes(secret));
        byte[] signed = Encoding.UTF8.GetBytes(sent + ".").Concat(body).ToArray();
        string hash = BitConverter.ToString(mac.ComputeHash(signed)).Replace("-", "").ToLowerInvariant();
        byte[] expected = Encoding.UTF8.GetBytes("v1=" + hash);
        return parts.Any(part => CryptographicOperations.FixedTimeEquals(expected, Encoding.UTF8.GetBytes(part)));
    }
}
`,
};

const github = {
  Python: `import hashlib, hmac

def verify(headers, body, secret):
    """headers: names in lower case; body: bytes, as they came"""
    expected = "sha256=" + hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()
    return hmac.compare_digest(expected, headers["x-hub-signature-256"])
`,
  "Node.js": `import { createHmac, timingSafeEqual } from "node:crypto";

// headers: names in lower case; body: a Buffer, as it came
export function verify(headers, body, secret) {
  const expected = createHmac("sha256", secret).update(body).digest();
  const given = Buffer.from(headers["x-hub-signature-256"].replace(/^sha256=/, ""), "hex");
  return given.length === expected.length && timingSafeEqual(given, expected);
}
`,
  Go: `package webhook

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
)

// Verify: body is as it came.
func Verify(headers http.Header, body []byte, secret string) bool {
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write(body)
	expected := "sha256=" + hex.EncodeToString(mac.Sum(nil))
	return hmac.Equal([]byte(expected), []byte(headers.Get("X-Hub-Signature-256")))
}
`,
  Java: `import java.security.MessageDigest;
import java.util.Map;
import javax.crypto.Mac;
import javax.crypto.spec.SecretKeySpec;

public final class Webhook {
    /** headers: names in lower case; body: as it came */
    public static boolean verify(Map<String, String> headers, byte[] body, String secret) throws Exception {
        Mac mac = Mac.getInstance("HmacSHA256");
        mac.init(new SecretKeySpec(secret.getBytes("UTF-8"), "HmacSHA256"));
        StringBuilder expected = new StringBuilder("sha256=");
        for (byte each : mac.doFinal(body)) {
            expected.append(String.format("%02x", each));
        }
        return MessageDigest.isEqual(expected.toString().getBytes("UTF-8"),
            headers.get("x-hub-signature-256").getBytes("UTF-8"));
    }
}
`,
  PHP: `<?php
// $headers: names in lower case; $body: as it came (php://input)
function verify(array $headers, string $body, string $secret): bool
{
    return hash_equals('sha256=' . hash_hmac('sha256', $body, $secret), $headers['x-hub-signature-256']);
}
`,
  Ruby: `require "openssl"

# headers: names in lower case; body: as it came
def verify(headers, body, secret)
  expected = "sha256=" + OpenSSL::HMAC.hexdigest("SHA256", secret, body.b)
  given = headers["x-hub-signature-256"]
  given.bytesize == expected.bytesize && OpenSSL.fixed_length_secure_compare(given, expected)
end
`,
  "C#": `using System;
using System.Collections.Generic;
using System.Security.Cryptography;
using System.Text;

public static class Webhook
{
    /// <summary>headers: names in lower case; body: as it came</summary>
    public static bool Verify(IReadOnlyDictionary<string, string> headers, byte[] body, string secret)
    {
        using var mac = new HMACSHA256(Encoding.UTF8.GetBytes(secret));
        string hash = BitConverter.ToString(mac.ComputeHash(body)).Replace("-", "").ToLowerInvariant();
        return CryptographicOperations.FixedTimeEquals(Encoding.UTF8.GetBytes("sha256=" + hash),
            Encoding.UTF8.GetBytes(headers["x-hub-signature-256"]));
    }
}
`,
};

export const schemes = { standard, stripe, github };
export const languages = Object.keys(standard);

/* null where nothing is signed, or nobody knows how. */
export const snippet = (scheme, language) => schemes[scheme]?.[language] ?? null;
