#include "sinks/redis/redis_slots.h"

#include <stdint.h>
#include <string.h>

/* CRC-16/XMODEM. */
static uint16_t crc16(const char *data, size_t length)
{
        uint16_t crc = 0;

        for (size_t i = 0; i < length; i++) {
                crc = (uint16_t)(crc ^ (uint16_t)((unsigned char)data[i] << 8));
                for (int bit = 0; bit < 8; bit++)
                        crc = (uint16_t)(crc & 0x8000 ? (crc << 1) ^ 0x1021 : crc << 1);
        }
        return crc;
}

unsigned redis_slot_of(const char *key, size_t length)
{
        const char *open = memchr(key, '{', length);

        if (open != NULL) {
                const char *tag = open + 1;
                size_t rest = length - (size_t)(tag - key);
                const char *end = memchr(tag, '}', rest);
                if (end != NULL && end > tag)
                        return crc16(tag, (size_t)(end - tag)) % REDIS_SLOTS;
        }
        return crc16(key, length) % REDIS_SLOTS;
}
