#include "sinks/http/http_gzip.h"

#include "base/alloc.h"
#include "base/bytes.h"

#define ZLIB_CONST
#include <zlib.h>

/* Fast rather than small: this runs on the loop, where everything else waits for it. */
#define LEVEL       Z_BEST_SPEED
#define GZIP_FORMAT 16 /* added to the window's bits */

void http_gzip_append(struct bytes *out, const void *data, size_t length)
{
        unsigned char buffer[16384];
        z_stream stream = {0};
        int result;

        if (deflateInit2(&stream, LEVEL, Z_DEFLATED, MAX_WBITS + GZIP_FORMAT, MAX_MEM_LEVEL,
                Z_DEFAULT_STRATEGY) != Z_OK)
                out_of_memory();
        stream.next_in = data;
        stream.avail_in = (uInt)length; /* max_event_bytes and batch.bytes keep it below 4 GiB */
        do {
                stream.next_out = buffer;
                stream.avail_out = sizeof buffer;
                result = deflate(&stream, Z_FINISH);
                bytes_append(out, buffer, sizeof buffer - stream.avail_out);
        } while (result == Z_OK);
        deflateEnd(&stream);
}
