#include "sinks/redis/redis_keys.h"

#include "base/hash.h"

void redis_keys_start_burst(struct redis_keys *keys)
{
        keys->burst++;
}

void redis_keys_forget_others(struct redis_keys *keys)
{
        keys->forgotten = keys->burst - 1;
}

bool redis_keys_add(struct redis_keys *keys, const char *key)
{
        uint64_t hash = hash_text(key);
        uint64_t at = (hash ^ (hash >> 32)) % REDIS_KEYS_PLACES;

        while (keys->places[at].burst > keys->forgotten) {
                if (keys->places[at].hash == hash)
                        return false;
                at = (at + 1) % REDIS_KEYS_PLACES;
        }
        keys->places[at].hash = hash;
        keys->places[at].burst = keys->burst;
        return true;
}
