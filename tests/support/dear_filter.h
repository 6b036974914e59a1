/* A filter that takes minutes for an ordinary event, and gigabytes. */
#pragma once

/* Of an object with a dozen nodes each level takes a dozen times as long. */
#define DEAR                                                                                       \
        "exists($.** ? (exists($.** ? (exists($.** ? (exists($.** ? (exists($.** ? (exists($.**"   \
        " ? (exists($.** ? (exists($.** ? (exists($.** ? (@ == \"nope\"))))))))))))))))))"
#define A_DOZEN "{\"id\":1,\"a\":2,\"b\":3,\"c\":4,\"d\":[1,2,3],\"e\":{\"x\":1}}"
