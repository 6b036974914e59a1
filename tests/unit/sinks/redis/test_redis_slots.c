/* Slots as CLUSTER KEYSLOT of Redis 7.0 gives them. */
#include "sinks/redis/redis_cluster.h"

#include <criterion/criterion.h>
#include <string.h>

Test(redis_slots, are_those_of_redis)
{
        static const struct {
                const char *key;
                unsigned slot;
        } rows[] = {{"", 0}, {"123456789", 12739}, {"foo", 12182}, {"events:orders.created", 8562},
            {"{user1000}.following", 3443}, {"user1000", 3443}, {"foo{}{bar}", 8363},
            {"foo{{bar}}zap", 4015}, {"{bar", 4015}, {"foo{bar}{zap}", 5061}, {"bar", 5061},
            {"foo{bar", 15278}};

        for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
                cr_expect(redis_slot_of(rows[i].key, strlen(rows[i].key)) == rows[i].slot,
                    "'%s' is in %u", rows[i].key, redis_slot_of(rows[i].key, strlen(rows[i].key)));
}
