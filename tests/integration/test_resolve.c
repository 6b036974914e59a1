/* Look-ups on the loop: what they find, when they give up, and that none delays another. */
#include "loop/resolve.h"

#include "base/alloc.h"
#include "base/bytes.h"
#include "support/dns_server.h"
#include "support/process.h"

#include <criterion/criterion.h>
#include <netdb.h>
#include <stdlib.h>
#include <string.h>

struct asked {
        struct resolve *lookup;
        uv_loop_t *loop;
        bool is_told;
        bool is_starting;
        struct bytes found; /* "address,address" */
        char failure[200];
        struct resolve *to_cancel;
};

static void on_resolved(void *owner, const struct addrinfo *addresses, const char *failure)
{
        struct asked *asked = owner;

        cr_assert_not(asked->is_starting, "told inside resolve_start()");
        cr_assert_not(asked->is_told, "told twice");
        cr_assert((addresses == NULL) == (failure != NULL));
        asked->is_told = true;
        asked->lookup = NULL;
        for (const struct addrinfo *at = addresses; at != NULL; at = at->ai_next) {
                char text[NI_MAXHOST];
                char port[NI_MAXSERV];
                cr_assert_eq(getnameinfo(at->ai_addr, at->ai_addrlen, text, sizeof text, port,
                                 sizeof port, NI_NUMERICHOST | NI_NUMERICSERV),
                    0);
                cr_assert_str_eq(port, "8080");
                bytes_printf(&asked->found, "%s%s", asked->found.length > 0 ? "," : "", text);
        }
        snprintf(asked->failure, sizeof asked->failure, "%s", failure != NULL ? failure : "");
        resolve_cancel(asked->to_cancel);
        uv_stop(asked->loop);
}

static void ask(struct asked *asked, uv_loop_t *loop, const char *name, int64_t timeout_ms)
{
        *asked = (struct asked){.loop = loop, .is_starting = true};
        asked->lookup = resolve_start(loop, name, "8080", timeout_ms, on_resolved, asked);
        asked->is_starting = false;
}

static void wait_for(struct asked *asked)
{
        while (!asked->is_told)
                cr_assert(uv_run(asked->loop, UV_RUN_ONCE) != 0 || asked->is_told,
                    "the loop has nothing to wait for");
}

/* The loop must run dry: nothing may be left of any look-up. */
static void end(uv_loop_t *loop)
{
        uv_run(loop, UV_RUN_DEFAULT);
        uv_run(loop, UV_RUN_DEFAULT); /* a stop may have been asked for */
        cr_expect_eq(uv_loop_close(loop), 0);
}

static void expect_found(struct asked *asked, const char *addresses)
{
        wait_for(asked);
        cr_expect_str_eq(asked->failure, "");
        cr_expect(asked->found.data != NULL && strcmp(asked->found.data, addresses) == 0,
            "found %s instead of %s", asked->found.data, addresses);
        bytes_deinit(&asked->found);
}

static void expect_failure(struct asked *asked, const char *words)
{
        wait_for(asked);
        cr_expect(asked->found.data == NULL, "found %s", asked->found.data);
        cr_expect(strstr(asked->failure, words) != NULL, "failure: %s", asked->failure);
        bytes_deinit(&asked->found);
}

Test(resolve, asks_no_server_for_literals_and_names_of_this_machine)
{
        struct dns_server *server = dns_server_start();
        struct asked asked;
        uv_loop_t loop;

        uv_loop_init(&loop);
        dns_server_mute(server);
        dns_server_use(server);
        ask(&asked, &loop, "192.0.2.7", 5000);
        expect_found(&asked, "192.0.2.7");
        ask(&asked, &loop, "2001:db8::7", 5000);
        expect_found(&asked, "2001:db8::7");
        ask(&asked, &loop, "localhost", 5000);
        wait_for(&asked);
        cr_expect(asked.found.data != NULL && strstr(asked.found.data, "127.0.0.1") != NULL,
            "localhost is %s, %s", asked.found.data, asked.failure);
        bytes_deinit(&asked.found);
        cr_expect_eq(dns_server_n_asked(server), 0);
        end(&loop);
        dns_server_destroy(server);
}

Test(resolve, finds_addresses_of_both_families)
{
        struct dns_server *server = dns_server_start();
        struct asked asked;
        uv_loop_t loop;

        uv_loop_init(&loop);
        dns_server_use(server);
        dns_server_answer(server, "127.0.0.7 ::1 127.0.0.8");
        ask(&asked, &loop, "receiver.test", 5000);
        wait_for(&asked);
        cr_assert(asked.found.data != NULL, "%s", asked.failure);
        cr_expect(strstr(asked.found.data, "127.0.0.7") != NULL);
        cr_expect(strstr(asked.found.data, "127.0.0.8") != NULL);
        cr_expect(strstr(asked.found.data, "::1") != NULL, "%s", asked.found.data);
        bytes_deinit(&asked.found);
        dns_server_answer(server, "::1");
        ask(&asked, &loop, "receiver.test", 5000);
        expect_found(&asked, "::1");
        dns_server_answer(server, "127.0.0.7");
        ask(&asked, &loop, "receiver.test", 5000);
        expect_found(&asked, "127.0.0.7");
        end(&loop);
        dns_server_destroy(server);
}

Test(resolve, says_why_there_is_no_address)
{
        struct dns_server *server = dns_server_start();
        struct asked asked;
        uv_loop_t loop;
        const char *const nobody[] = {"127.0.0.1:1"};
        const char *const nonsense[] = {"nonsense"};

        uv_loop_init(&loop);
        dns_server_use(server);
        ask(&asked, &loop, "nobody.test", 5000);
        expect_failure(&asked, "not found");
        dns_server_answer(server, "");
        ask(&asked, &loop, "empty.test", 5000);
        expect_failure(&asked, "no data");
        ask(&asked, &loop, "", 5000);
        expect_failure(&asked, "");
        resolve_use_servers(nobody, 1);
        ask(&asked, &loop, "receiver.test", 60000);
        expect_failure(&asked, "Could not contact DNS servers");
        resolve_use_servers(nonsense, 1); /* c-ares does not even begin */
        ask(&asked, &loop, "receiver.test", 60000);
        expect_failure(&asked, "");
        ask(&asked, &loop, "receiver.test", 60000);
        resolve_cancel(asked.lookup);
        end(&loop);
        dns_server_destroy(server);
}

Test(resolve, gives_each_look_up_its_own_deadline_and_delays_no_other)
{
        enum { N_HANGING = 1000 };
        struct dns_server *server = dns_server_start();
        struct asked *hanging = xcalloc(N_HANGING, sizeof *hanging);
        struct asked asked;
        struct asked impatient;
        uv_loop_t loop;

        uv_loop_init(&loop);
        dns_server_use(server);
        dns_server_answer(server, "127.0.0.7");
        for (int i = 0; i < N_HANGING; i++)
                ask(&hanging[i], &loop, "mute.test", 60000);
        ask(&impatient, &loop, "mute.test", 50);
        ask(&asked, &loop, "receiver.test", 60000);
        expect_found(&asked, "127.0.0.7");
        expect_failure(&impatient, "did not answer in time (50 ms)");
        ask(&asked, &loop, "other.test", 60000);
        expect_found(&asked, "127.0.0.7");
        for (int i = 0; i < N_HANGING; i++) {
                cr_expect_not(hanging[i].is_told);
                resolve_cancel(hanging[i].lookup);
        }
        end(&loop); /* at once, though c-ares would wait for 15 s */
        for (int i = 0; i < N_HANGING; i++)
                cr_expect_not(hanging[i].is_told);
        free(hanging);
        dns_server_destroy(server);
}

Test(resolve, can_be_cancelled_at_any_time)
{
        struct dns_server *server = dns_server_start();
        struct asked first;
        struct asked second;
        uv_loop_t loop;

        uv_loop_init(&loop);
        dns_server_use(server);
        dns_server_answer(server, "127.0.0.7");
        resolve_cancel(NULL);
        ask(&first, &loop, "192.0.2.7", 5000); /* answered, and not told yet */
        resolve_cancel(first.lookup);
        ask(&first, &loop, "receiver.test", 5000); /* asked */
        resolve_cancel(first.lookup);
        ask(&first, &loop, "mute.test", 5000); /* inside the telling of another */
        ask(&second, &loop, "receiver.test", 5000);
        second.to_cancel = first.lookup;
        expect_found(&second, "127.0.0.7");
        end(&loop);
        cr_expect_not(first.is_told);
        dns_server_destroy(server);
}

static bool is_answered_by_dnsmasq(void *context)
{
        const uint16_t *port = context;
        const char *address = xasprintf("127.0.0.1:%u", *port);
        struct asked asked;
        uv_loop_t loop;
        bool is_found;

        resolve_use_servers(&address, 1);
        uv_loop_init(&loop);
        ask(&asked, &loop, "receiver.test", 1000);
        wait_for(&asked);
        is_found = asked.found.data != NULL && strcmp(asked.found.data, "127.0.0.9") == 0;
        bytes_deinit(&asked.found);
        end(&loop);
        free((void *)(uintptr_t)address);
        return is_found;
}

Test(resolve, understands_a_server_of_others)
{
        uint16_t port = free_port();
        char *port_option = xasprintf("--port=%u", port);
        const char *const argv[] = {"/usr/sbin/dnsmasq", "--keep-in-foreground", "--no-resolv",
            "--no-hosts", "--conf-file=/dev/null", "--pid-file=", "--listen-address=127.0.0.1",
            "--bind-interfaces", "--no-dhcp-interface=lo", "--local=/test/",
            "--address=/receiver.test/127.0.0.9", port_option, NULL};
        struct process process;

        process_start(&process, argv, NULL, true);
        wait_until(is_answered_by_dnsmasq, &port, 20000, "an answer of dnsmasq");
        process_stop(&process);
        free(port_option);
}
