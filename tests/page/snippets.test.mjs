import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { createHmac } from "node:crypto";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { languages, schemes, snippet } from "../../src/admin/page/snippets.mjs";

const body = '{"order": 17,  "name": "Ä"}';
const id = "55d4441f-b974-465b-833a-d25d380492fc";
const text = { standard: `whsec_${Buffer.from("a secret of 24 bytes at least").toString("base64")}`, stripe: "a secret", github: "a secret" };
const others = { standard: `whsec_${Buffer.from("another secret of those bytes").toString("base64")}`, stripe: "another", github: "another" };

const wrong = { standard: `whsec_${Buffer.from("no secret of these, but wrong").toString("base64")}`, stripe: "wrong", github: "wrong" };

const mac = (key, signed, form) => createHmac("sha256", key).update(signed).digest(form);

/* As src/sinks/http/http_signing.c does it, by two secrets where that is possible. */
function headersFor(scheme, sent) {
  const key = (secret) => Buffer.from(secret.replace("whsec_", ""), "base64");
  if (scheme === "standard") return { "webhook-id": id, "webhook-timestamp": String(sent),
    "webhook-signature": [others, text].map((each) => `v1,${mac(key(each.standard), `${id}.${sent}.${body}`, "base64")}`).join(" ") };
  if (scheme === "stripe") return { "stripe-signature": `t=${sent},${[others, text].map((each) => `v1=${mac(each.stripe, `${sent}.${body}`, "hex")}`).join(",")}` };
  return { "x-hub-signature-256": `sha256=${mac(text.github, body, "hex")}` };
}

const now = Math.floor(Date.now() / 1000);
/* What each snippet is asked, and whether it is to say yes. */
function casesOf(scheme) {
  const good = headersFor(scheme, now);
  const cases = [[good, body, text[scheme], true], [good, `${body} `, text[scheme], false], [good, body, wrong[scheme], false]];
  if (scheme !== "github") cases.push([headersFor(scheme, now - 3600), body, text[scheme], false]);
  return cases;
}

/* How a program in that language reads [[headers, body, secret], …] and prints true or false for each. */
const programs = {
  Python: ["/usr/bin/python3", "webhook.py", (code) => `${code}
import json, sys
for headers, body, secret in json.load(sys.stdin):
    print(str(verify(headers, body.encode(), secret)).lower())
`],
  "Node.js": ["node", "webhook.mjs", (code) => `${code}
import { readFileSync } from "node:fs";
for (const [headers, body, secret] of JSON.parse(readFileSync(0, "utf8"))) console.log(verify(headers, Buffer.from(body), secret));
`],
  PHP: ["php", "webhook.php", (code) => `${code}
foreach (json_decode(file_get_contents('php://stdin'), true) as [$headers, $body, $secret]) {
    echo verify($headers, $body, $secret) ? 'true' : 'false', "\n";
}
`],
  Ruby: ["ruby", "webhook.rb", (code) => `${code}
require "json"
JSON.parse($stdin.read).each { |headers, body, secret| puts verify(headers, body, secret) }
`],
  Go: ["go", "webhook.go", (code) => code.replace("package webhook", "package main").replace("import (", 'import (\n\t"encoding/json"\n\t"fmt"\n\t"os"') + `
func main() {
	var cases [][3]json.RawMessage
	json.NewDecoder(os.Stdin).Decode(&cases)
	for _, given := range cases {
		var names map[string]string
		var body, secret string
		json.Unmarshal(given[0], &names)
		json.Unmarshal(given[1], &body)
		json.Unmarshal(given[2], &secret)
		headers := http.Header{}
		for name, value := range names {
			headers.Set(name, value)
		}
		fmt.Println(Verify(headers, []byte(body), secret))
	}
}
`, "run"],
  Java: ["java", "Webhook.java", (code) => code.replace(/}\s*$/, `
    public static void main(String[] words) throws Exception {
        for (int i = 0; i < words.length;) {
            String body = words[i++], secret = words[i++];
            Map<String, String> headers = new java.util.HashMap<>();
            while (i < words.length && !words[i].equals("--")) {
                headers.put(words[i], words[i + 1]);
                i += 2;
            }
            i++;
            System.out.println(verify(headers, body.getBytes("UTF-8"), secret));
        }
    }
}
`)],
  /* Mono compiles older C#, which has no `using var`. */
  "C#": ["sh", "Webhook.cs", (code) => `${code.replace("using var", "var")}
class Program
{
    static void Main(string[] words)
    {
        for (int i = 0; i < words.Length; i++)
        {
            string body = words[i++], secret = words[i++];
            var headers = new Dictionary<string, string>();
            for (; words[i] != "--"; i += 2) headers[words[i]] = words[i + 1];
            Console.WriteLine(Webhook.Verify(headers, Encoding.UTF8.GetBytes(body), secret) ? "true" : "false");
        }
    }
}
`, "-c", 'mcs -out:webhook.exe "$0" && mono webhook.exe "$@"'],
};
/* Those that read their cases from the command line. */
const byWords = ["Java", "C#"];

function isThere(program) {
  try {
    execFileSync(program, [program === "go" ? "version" : "--version"], { stdio: "ignore" });
    return true;
  } catch {
    return false;
  }
}

for (const scheme of Object.keys(schemes)) {
  for (const language of languages) {
    const [program, file, make, ...before] = programs[language] ?? [];
    const skip = program === undefined || !isThere(language === "C#" ? "mcs" : program) ? `no ${language} here` : false;
    test(`${language} verifies ${scheme}`, { skip }, () => {
      const folder = mkdtempSync(join(tmpdir(), "pgcourier-snippet-"));
      try {
        writeFileSync(join(folder, file), make(snippet(scheme, language)));
        const cases = casesOf(scheme);
        const words = byWords.includes(language) ? cases.flatMap(([headers, given, secret]) => [given, secret, ...Object.entries(headers).flat(), "--"]) : [];
        const said = execFileSync(program, [...before, join(folder, file), ...words],
          { input: JSON.stringify(cases.map((each) => each.slice(0, 3))), cwd: folder, env: { HOME: folder, ...process.env, LC_ALL: "C.UTF-8", PYTHONUTF8: "1" } });
        assert.deepEqual(said.toString().trim().split("\n"), cases.map((each) => String(each[3])));
      } finally {
        rmSync(folder, { recursive: true, force: true });
      }
    });
  }
}

test("there is a snippet for each language and scheme, and none where nothing is signed", () => {
  assert.equal(languages.length, 7);
  for (const scheme of Object.keys(schemes)) for (const language of languages) assert.match(snippet(scheme, language), /(?:hmac|HMAC|Hmac)/);
  assert.equal(snippet("none", "Go"), null);
  assert.equal(snippet(null, "Go"), null);
});
