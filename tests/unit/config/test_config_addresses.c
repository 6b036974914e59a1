/* The keys that hold addresses: what they take, and the words for what they do not. */
#include "config/values.h"
#include "support/config_steps.h"

#define HTTP SINK "    http:\n      url: http://h\n"

TestSuite(config_addresses, .init = make_path, .fini = remove_path);

Test(config_addresses, are_read_as_they_are_written)
{
        struct config *config =
            load(PG "relay: {dns_servers: [192.0.2.53, \"[2001:db8::53]:5353\"]}\n" HTTP
                    "      block_metadata: false\n"
                    "      allow_networks: [10.0.0.0/8, \"fd12::/16\"]\n"
                    "      allow_ports: [8443]\n"
                    "      https_only: true\n");
        const struct http_config *http = config->sinks[0].http;

        cr_expect_eq(config->relay.n_dns_servers, 2);
        cr_expect_str_eq(config->relay.dns_servers[1], "[2001:db8::53]:5353");
        cr_expect_not(http->block_metadata);
        cr_expect(http->https_only);
        cr_expect_eq(http->n_allow_networks, 2);
        cr_expect_str_eq(http->allow_networks[1], "fd12::/16");
        cr_expect_eq(http->n_allow_ports, 1);
        cr_expect_str_eq(http->allow_ports[0], "8443");
        config_free(config);
}

Test(config_addresses, are_guarded_by_default)
{
        struct config *config = load(PG HTTP);

        cr_expect(config->sinks[0].http->block_metadata);
        cr_expect_not(config->sinks[0].http->https_only);
        cr_expect_eq(config->sinks[0].http->n_allow_networks, 0);
        cr_expect_eq(config->sinks[0].http->n_allow_ports, 0);
        cr_expect_eq(config->relay.n_dns_servers, 0);
        config_free(config);
}

Test(config_addresses, say_where_they_are_wrong)
{
        static const struct bad cases[] = {
            {PG HTTP "      allow_networks: [10.1.0.0/8]\n", "7:24",
                "sinks[0].http.allow_networks[0]: has bits set"},
            {PG HTTP "      allow_ports: [443, 0]\n", "7:26",
                "allow_ports[1]: is not a port; allowed: 1 to 65535"},
            {PG "relay: {dns_servers: [dns.example]}\n" HTTP, "2:23",
                "dns_servers[0]: is not the address of a name server"},
        };

        REFUSE_ALL(cases);
}

Test(config_addresses, name_servers_by_address_and_port)
{
        static const char *const right[] = {"192.0.2.53", "192.0.2.53:1", "192.0.2.53:65535",
            "2001:db8::53", "[2001:db8::53]", "[2001:db8::53]:5353", "::1", "::ffff:192.0.2.53"};
        static const char *const wrong[] = {"", ":", ":53", "dns", "192.0.2",
            "192.0.2.53:", "192.0.2.53:0", "192.0.2.53:053", "192.0.2.53:65536", "192.0.2.53:5353 ",
            "192.0.2.53,192.0.2.54", "[]", "[", "[::1", "[::1]5353", "[::1]:", "[192.0.2.53]:53",
            "::1]", "fe80::1%eth0", "1234567890123456789012345678901234567890123456789012345678"};
        static const char *const bad_ports[] = {
            "", "0", "080", "65536", "-1", "8 ", "http", "99999999999999999999"};

        for (size_t i = 0; i < sizeof right / sizeof *right; i++)
                cr_expect_null(check_dns_server(right[i]), "%s", right[i]);
        for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
                cr_expect(check_dns_server(wrong[i]) != NULL, "%s", wrong[i]);
        for (size_t i = 0; i < sizeof bad_ports / sizeof *bad_ports; i++)
                cr_expect(check_port(bad_ports[i]) != NULL, "%s", bad_ports[i]);
        cr_expect_null(check_port("1"));
        cr_expect_null(check_port("65535"));
}
