#include "sinks/nats/nats_protocol.h"

#include "base/bytes.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct nats_frame read_text(const char *text)
{
        return nats_read(text, strlen(text));
}

static bool is_text(const char *data, size_t length, const char *expected)
{
        return length == strlen(expected) && memcmp(data, expected, length) == 0;
}

Test(nats_protocol, reads_lines_without_a_payload)
{
        struct nats_frame frame = read_text("INFO {\"a\":1} \r\nPING\r\n");

        cr_expect(frame.kind == NATS_INFO && frame.size == 15);
        cr_expect(is_text(frame.text, frame.text_bytes, "{\"a\":1} "));
        cr_expect(read_text("PING\r\n").kind == NATS_PING);
        cr_expect(read_text("pong\r\n").kind == NATS_PONG);
        cr_expect(read_text("+OK\r\n").kind == NATS_OK);
        frame = read_text("-ERR 'Authorization Violation'\r\n");
        cr_expect(frame.kind == NATS_ERROR);
        cr_expect(is_text(frame.text, frame.text_bytes, "Authorization Violation"));
}

Test(nats_protocol, reads_messages)
{
        struct nats_frame frame = read_text("MSG a.b 1 5\r\nhello\r\n");

        cr_expect(frame.kind == NATS_MESSAGE && frame.size == 20);
        cr_expect(is_text(frame.subject, frame.subject_bytes, "a.b"));
        cr_expect(is_text(frame.payload, frame.payload_bytes, "hello"));
        cr_expect(frame.status == 0);
        frame = read_text("MSG a.b 1 reply.to 0\r\n\r\n");
        cr_expect(frame.kind == NATS_MESSAGE && frame.payload_bytes == 0);
        frame = read_text("HMSG a 1 16 16\r\nNATS/1.0 503\r\n\r\n\r\n");
        cr_expect(frame.kind == NATS_MESSAGE && frame.status == 503 && frame.payload_bytes == 0);
        frame = read_text("HMSG a 1 r 18 20\r\nNATS/1.0\r\na: b\r\n\r\nhi\r\n");
        cr_expect(frame.kind == NATS_MESSAGE && frame.status == 0);
        cr_expect(is_text(frame.payload, frame.payload_bytes, "hi"));
}

/* A payload may look like a line. */
Test(nats_protocol, bears_any_split)
{
        static const char all[] = "INFO {}\r\nMSG a 1 6\r\nPING\r\n\r\nHMSG a 1 16 18\r\nNATS/1.0 "
                                  "503\r\n\r\nxy\r\n-ERR 'x'\r\nPONG\r\n";
        static const enum nats_frame_kind kinds[] = {
            NATS_INFO, NATS_MESSAGE, NATS_MESSAGE, NATS_ERROR, NATS_PONG};
        size_t at = 0;
        unsigned n = 0;

        for (size_t end = 1; end < sizeof all; end++) {
                char *copy = malloc(end - at); /* a block of its own: reading past it is seen */
                struct nats_frame frame;

                memcpy(copy, all + at, end - at);
                frame = nats_read(copy, end - at);
                if (frame.kind == NATS_INCOMPLETE) {
                        cr_expect(frame.size == 0);
                } else {
                        cr_assert(n < 5 && frame.kind == kinds[n]);
                        cr_expect(frame.size == end - at);
                        at = end;
                        n++;
                }
                free(copy);
        }
        cr_expect(n == 5);
}

Test(nats_protocol, refuses_what_makes_no_sense)
{
        static const char *const texts[] = {"\r\n", "HELLO\r\n", "MSG\r\n", "MSG a 1\r\n",
            "MSG a 1 r r 0\r\n\r\n", "MSG a 1 -1\r\n", "MSG a 1 x\r\n", "MSG a 1 99999999999\r\n",
            "MSG a 1 1048577\r\n", "MSG a 1 2\r\nabcd\r\n", "HMSG a 1 5\r\n\r\n",
            "HMSG a 1 6 5\r\nabcde\r\n", "HMSG a 1 5 1048577\r\n", "HMSG a 1 r x 1 1\r\n"};

        for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
                cr_expect(read_text(texts[i]).kind == NATS_MALFORMED, "%s", texts[i]);
}

Test(nats_protocol, bounds_what_it_waits_for)
{
        char *long_line = malloc(NATS_MAX_INFO_BYTES + 1);

        memset(long_line, 'x', NATS_MAX_INFO_BYTES + 1);
        cr_expect(nats_read(long_line, NATS_MAX_LINE_BYTES).kind == NATS_INCOMPLETE);
        cr_expect(nats_read(long_line, NATS_MAX_LINE_BYTES + 1).kind == NATS_MALFORMED);
        memcpy(long_line, "INFO ", 5);
        cr_expect(nats_read(long_line, NATS_MAX_INFO_BYTES - 1).kind == NATS_INCOMPLETE);
        cr_expect(nats_read(long_line, NATS_MAX_INFO_BYTES).kind == NATS_MALFORMED);
        memcpy(long_line, "PING ", 5);
        long_line[NATS_MAX_LINE_BYTES + 1] = '\n';
        cr_expect(nats_read(long_line, NATS_MAX_LINE_BYTES + 2).kind == NATS_MALFORMED);
        free(long_line);
}

Test(nats_protocol, writes_publications)
{
        struct bytes out = {0};

        nats_append_publication(&out, &(struct nats_publication){.subject = "a.b",
                                          .subject_bytes = 3,
                                          .reply = "r",
                                          .reply_bytes = 1,
                                          .headers = "NATS/1.0\r\n\r\n",
                                          .headers_bytes = 12,
                                          .payload = "hello",
                                          .payload_bytes = 5});
        cr_expect_str_eq(out.data, "HPUB a.b r 12 17\r\nNATS/1.0\r\n\r\nhello\r\n");
        bytes_clear(&out);
        nats_append_publication(
            &out, &(struct nats_publication){.subject = "a.b", .subject_bytes = 3});
        cr_expect_str_eq(out.data, "PUB a.b 0\r\n\r\n");
        bytes_clear(&out);
        nats_append_subscription(&out, "_INBOX.x.*", 7);
        nats_append_ping(&out);
        nats_append_pong(&out);
        cr_expect_str_eq(out.data, "SUB _INBOX.x.* 7\r\nPING\r\nPONG\r\n");
        bytes_deinit(&out);
}
