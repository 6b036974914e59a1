#include "sinks/guarded_socket.h"

#include "sinks/address_guard.h"

#include <sys/socket.h>

curl_socket_t guarded_socket_open(void *owner, curlsocktype purpose, struct curl_sockaddr *address)
{
        struct guarded_socket *guarded = owner;

        (void)purpose;
        if (!address_guard_permits(
                guarded->guard, &address->addr, guarded->refusal, sizeof guarded->refusal))
                return CURL_SOCKET_BAD; /* libcurl goes on to the next address */
        guarded->has_permitted = true;
        return socket(address->family, address->socktype | SOCK_CLOEXEC, address->protocol);
}

void guarded_socket_forget(struct guarded_socket *guarded)
{
        guarded->has_permitted = false;
        guarded->refusal[0] = '\0';
}

const char *guarded_socket_refusal(const struct guarded_socket *guarded)
{
        return guarded->refusal[0] != '\0' && !guarded->has_permitted ? guarded->refusal : NULL;
}
