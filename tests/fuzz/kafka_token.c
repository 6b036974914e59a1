/* A token as it stands in a file: whatever is in it, when it expires is 0 or a time to come before
 * the year 3000. */
#include "sinks/kafka/kafka_token.h"

#include "fuzz.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        struct fuzz_input input = {data, size};
        char *token = fuzz_take_text(&input);
        int64_t expires_ms = kafka_token_expires_ms(token);

        fuzz_require(expires_ms >= 0 && expires_ms < INT64_C(32503680000000), "a time", token);
        free(token);
        return 0;
}
