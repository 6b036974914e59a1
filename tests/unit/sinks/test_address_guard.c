/* What the address guard lets through: every network of its lists, at both ends, and what hides an
 * IPv4 address in an IPv6 one. */
#include "sinks/address_guard.h"

#include "config/config.h"
#include "text/network.h"

#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>

static struct sockaddr_storage address_of(const char *text, uint16_t port)
{
        struct sockaddr_storage storage = {0};
        struct sockaddr_in *v4 = (struct sockaddr_in *)&storage;
        struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)&storage;

        if (inet_pton(AF_INET, text, &v4->sin_addr) == 1) {
                v4->sin_family = AF_INET;
                v4->sin_port = htons(port);
        } else {
                cr_assert_eq(inet_pton(AF_INET6, text, &v6->sin6_addr), 1, "%s", text);
                v6->sin6_family = AF_INET6;
                v6->sin6_port = htons(port);
        }
        return storage;
}

static bool permits_port(
    const struct address_guard *guard, const char *text, uint16_t port, char *words)
{
        const struct sockaddr_storage address = address_of(text, port);

        return address_guard_permits(guard, (const struct sockaddr *)&address, words, 200);
}

static bool permits(const struct address_guard *guard, const char *text)
{
        char words[200] = "";

        return permits_port(guard, text, 443, words);
}

Test(address_guard, lets_urls_of_a_table_reach_public_addresses_only)
{
        static const char *const refused[] = {"0.0.0.0", "0.255.255.255", "10.0.0.0",
            "10.255.255.255", "100.64.0.0", "100.100.100.200", "100.127.255.255", "127.0.0.1",
            "127.255.255.255", "168.63.129.16", "169.254.0.0", "169.254.169.254", "172.16.0.0",
            "172.31.255.255", "192.0.0.1", "192.0.2.255", "192.88.99.1", "192.168.0.0",
            "192.168.255.255", "198.18.0.0", "198.19.255.255", "198.51.100.7", "203.0.113.7",
            "224.0.0.1", "239.255.255.255", "240.0.0.1", "255.255.255.255", "::", "::1", "::2",
            "::127.0.0.1", "::8.8.8.8", "64:ff9b:1::1", "100::1", "200::1", "1000::1", "2001::1",
            "2001:db8:ffff::1", "3fff:fff::1", "4000::1", "5f00::1", "8000::1", "fc00::1",
            "fd00:ec2::254", "fdff::1", "fe80::1", "febf::1", "fec0::1", "feff::1", "ff02::1"};
        static const char *const permitted[] = {"1.0.0.0", "8.8.8.8", "9.255.255.255", "11.0.0.0",
            "100.63.255.255", "100.128.0.0", "126.255.255.255", "128.0.0.0", "169.253.255.255",
            "169.255.0.0", "172.15.255.255", "172.32.0.0", "192.0.1.0", "192.0.3.0",
            "192.167.255.255", "192.169.0.0", "198.17.255.255", "198.20.0.0", "223.255.255.255",
            "2000::1", "2001:1::1", "2001:4860:4860::8888", "2001:db7::1", "2606:4700::1111",
            "3ffe::1", "3fff:1000::1"};
        struct address_guard *guard =
            address_guard_create(&(struct http_config){.block_metadata = false}, URL_OF_TABLE);

        for (size_t i = 0; i < sizeof refused / sizeof *refused; i++)
                cr_expect_not(permits(guard, refused[i]), "%s", refused[i]);
        for (size_t i = 0; i < sizeof permitted / sizeof *permitted; i++)
                cr_expect(permits(guard, permitted[i]), "%s", permitted[i]);
        address_guard_destroy(guard);
}

static bool permits_within(
    const struct address_guard *guard, const char *prefix, const char *address)
{
        char text[64];

        snprintf(text, sizeof text, "%s%s", prefix, address);
        return permits(guard, text);
}

Test(address_guard, looks_inside_an_ipv6_address)
{
        static const char *const prefixes[] = {"::ffff:", "::ffff:0:", "64:ff9b::"};
        struct address_guard *guard = address_guard_create(&(struct http_config){0}, URL_OF_TABLE);
        struct address_guard *ours =
            address_guard_create(&(struct http_config){.block_metadata = true}, URL_OF_CONFIG);

        for (size_t i = 0; i < sizeof prefixes / sizeof *prefixes; i++) {
                const char *prefix = prefixes[i];
                cr_expect_not(permits_within(guard, prefix, "127.0.0.1"), "%s", prefix);
                cr_expect(permits_within(ours, prefix, "127.0.0.1"), "%s", prefix);
                cr_expect_not(permits_within(guard, prefix, "169.254.169.254"), "%s", prefix);
                cr_expect_not(permits_within(ours, prefix, "169.254.169.254"), "%s", prefix);
                cr_expect(permits_within(guard, prefix, "8.8.8.8"), "%s", prefix);
        }
        cr_expect_not(permits(guard, "2002:7f00:1::1"), "6to4 of 127.0.0.1");
        cr_expect_not(permits(guard, "2002:a9fe:a9fe::"), "6to4 of 169.254.169.254");
        cr_expect_not(permits(ours, "2002:a9fe:a9fe::"), "6to4 of 169.254.169.254");
        cr_expect_not(permits(ours, "::169.254.169.254"));
        cr_expect(permits(guard, "2002:808:808::1"), "6to4 of 8.8.8.8");
        address_guard_destroy(guard);
        address_guard_destroy(ours);
}

Test(address_guard, lets_urls_of_the_config_reach_all_but_metadata)
{
        static const char *const permitted[] = {"127.0.0.1", "10.1.2.3", "192.168.1.1", "::1",
            "fd12::1", "100.100.100.201", "8.8.8.8", "255.255.255.255"};
        static const char *const refused[] = {"169.254.169.254", "169.254.170.2", "fe80::1",
            "100.100.100.200", "168.63.129.16", "fd00:ec2::254", "fd20:ce::254"};
        struct address_guard *guard =
            address_guard_create(&(struct http_config){.block_metadata = true}, URL_OF_CONFIG);
        struct address_guard *open =
            address_guard_create(&(struct http_config){.block_metadata = false}, URL_OF_CONFIG);
        char words[200];

        for (size_t i = 0; i < sizeof permitted / sizeof *permitted; i++)
                cr_expect(permits_port(guard, permitted[i], 8080, words), "%s", permitted[i]);
        for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
                cr_expect_not(permits_port(guard, refused[i], 80, words), "%s", refused[i]);
                cr_expect(strstr(words, "http.block_metadata: false") != NULL, "%s", words);
                cr_expect(permits_port(open, refused[i], 80, words), "%s", refused[i]);
        }
        address_guard_destroy(guard);
        address_guard_destroy(open);
}

Test(address_guard, lets_through_what_the_config_allows)
{
        char private[] = "10.0.0.0/8";
        char local[] = "fd12::/16";
        char metadata[] = "169.254.169.254";
        char *networks[] = {private, local, metadata};
        const struct http_config config = {
            .block_metadata = true, .allow_networks = networks, .n_allow_networks = 3};
        struct address_guard *table = address_guard_create(&config, URL_OF_TABLE);
        struct address_guard *ours = address_guard_create(&config, URL_OF_CONFIG);

        cr_expect(permits(table, "10.1.2.3"));
        cr_expect(permits(table, "::ffff:10.1.2.3"));
        cr_expect(permits(table, "64:ff9b::10.1.2.3"));
        cr_expect(permits(table, "fd12::1"));
        cr_expect_not(permits(table, "fd13::1"));
        cr_expect_not(permits(table, "127.0.0.1"));
        cr_expect_not(permits(table, "169.254.169.253"));
        cr_expect(permits(ours, "169.254.169.254"));
        cr_expect_not(permits(ours, "169.254.169.253"));
        address_guard_destroy(table);
        address_guard_destroy(ours);
}

Test(address_guard, says_what_it_refuses_and_what_would_allow_it)
{
        struct address_guard *guard = address_guard_create(&(struct http_config){0}, URL_OF_TABLE);
        const struct sockaddr unix_socket = {.sa_family = AF_UNIX};
        char words[200];

        permits_port(guard, "127.0.0.1", 443, words);
        cr_expect_str_eq(words, "refused: 127.0.0.1 lies in 127.0.0.0/8 (this machine); "
                                "http.allow_networks can allow it");
        permits_port(guard, "::ffff:10.0.0.1", 443, words);
        cr_expect_str_eq(words, "refused: ::ffff:10.0.0.1 lies in 10.0.0.0/8 (private); "
                                "http.allow_networks can allow it");
        cr_expect_not(permits_port(guard, "8.8.8.8", 22, words));
        cr_expect_str_eq(
            words, "refused: port 22 is neither 80 nor 443; http.allow_ports can allow it");
        cr_expect_not(address_guard_permits(guard, &unix_socket, words, sizeof words));
        address_guard_destroy(guard);
}

Test(address_guard, judges_the_scheme_and_the_port_of_a_url)
{
        char port[] = "8443";
        char *ports[] = {port};
        const struct http_config config = {
            .https_only = true, .allow_ports = ports, .n_allow_ports = 1};
        struct address_guard *table = address_guard_create(&config, URL_OF_TABLE);
        struct address_guard *lax = address_guard_create(&(struct http_config){0}, URL_OF_TABLE);
        struct address_guard *ours = address_guard_create(&config, URL_OF_CONFIG);
        struct error error = {0};

        cr_expect(address_guard_permits_url(table, "https", "8443", &error));
        cr_expect(address_guard_permits_url(table, "https", "443", &error));
        cr_expect_not(address_guard_permits_url(table, "http", "80", &error));
        cr_expect(strstr(error.text, "https:// only") != NULL, "%s", error.text);
        cr_expect_not(address_guard_permits_url(table, "https", "22", &error));
        cr_expect(strstr(error.text, "port 22") != NULL, "%s", error.text);
        cr_expect(address_guard_permits_url(lax, "http", "80", &error));
        cr_expect_not(address_guard_permits_url(lax, "http", "8443", &error));
        cr_expect(address_guard_permits_url(ours, "http", "22", &error));
        address_guard_destroy(table);
        address_guard_destroy(lax);
        address_guard_destroy(ours);
}

Test(network, reads_what_is_written_plainly)
{
        static const char *const wrong[] = {"", "/", "/8", "10", "10.0.0/8", "10.0.0.0/",
            "10.0.0.0/33", "10.0.0.0/08", "10.0.0.0/-1", "10.0.0.0/ 8", "10.0.0.0/8 ",
            "10.0.0.0/8/8", "010.0.0.0/8", "10.1.0.0/8", "::1/127", "2001:db8::/129", "[::1]",
            "localhost", "fe80::1%eth0", "10.0.0.0/99999999999999999999",
            "1111:2222:3333:4444:5555:6666:7777:8888:9999:aaaa:bbbb:cccc:dddd/8"};
        static const char *const right[] = {"0.0.0.0/0", "10.0.0.0/8", "10.1.2.3", "10.1.2.3/32",
            "::/0", "2001:db8::/32", "::1", "::1/128", "128.0.0.0/1"};
        struct network network;
        const uint8_t inside[4] = {192, 168, 127, 255};
        const uint8_t outside[4] = {192, 168, 128, 0};

        for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
                cr_expect(network_parse(wrong[i], &network) != NULL, "'%s'", wrong[i]);
        for (size_t i = 0; i < sizeof right / sizeof *right; i++)
                cr_expect(network_parse(right[i], &network) == NULL, "'%s'", right[i]);
        cr_assert(network_parse("192.168.0.0/17", &network) == NULL);
        cr_expect(network_contains(&network, AF_INET, inside));
        cr_expect_not(network_contains(&network, AF_INET, outside));
        cr_expect_not(network_contains(&network, AF_INET6, inside));
        cr_assert(network_parse("0.0.0.0/0", &network) == NULL);
        cr_expect(network_contains(&network, AF_INET, outside));
}
