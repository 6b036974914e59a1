#include "admin/http/host_header.h"

#include <arpa/inet.h>
#include <string.h>
#include <strings.h>

/* "name", "name:port", "[ip6]", "[ip6]:port" without the port and the brackets. */
static bool take_name(const char *host, char *out_name, size_t size, bool *out_is_ip6)
{
        bool has_bracket = host[0] == '[';
        const char *start = has_bracket ? host + 1 : host;
        size_t length = strcspn(start, has_bracket ? "]" : ":");
        const char *rest = start + length;

        if (length == 0 || length >= size || (has_bracket && *rest++ != ']'))
                return false;
        if (*rest == ':')
                rest += 1 + strspn(rest + 1, "0123456789");
        if (*rest != '\0')
                return false;
        memcpy(out_name, start, length);
        out_name[length] = '\0';
        *out_is_ip6 = has_bracket;
        return true;
}

bool host_is_ours(const struct admin_config *config, const char *host)
{
        char name[256];
        unsigned char address[16];
        bool is_ip6;

        if (host == NULL || !take_name(host, name, sizeof name, &is_ip6))
                return false;
        if (is_ip6)
                return inet_pton(AF_INET6, name, address) == 1;
        if (strcasecmp(name, "localhost") == 0 || inet_pton(AF_INET, name, address) == 1)
                return true;
        for (unsigned i = 0; i < config->n_allowed_hosts; i++)
                if (strcasecmp(name, config->allowed_hosts[i]) == 0)
                        return true;
        return false;
}
