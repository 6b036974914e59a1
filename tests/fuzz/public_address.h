/* Another account of which addresses are public, to hold the address guard's against. It refuses
 * what must never be reached; what it lets pass, the guard may still refuse. */
#pragma once

#include <stdbool.h>
#include <sys/socket.h>

bool is_public_address(const struct sockaddr *address);
