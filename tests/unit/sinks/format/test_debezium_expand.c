/* The expected texts were printed by Debezium 3.2.1 (EventRouter, and JsonConverter of Kafka 4.0
 * without schemas), except where a test says that it does otherwise. */
#include "sinks/format/debezium_expand.h"

#include "base/alloc.h"
#include "base/bytes.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

static void expect_bytes(const char *json, size_t length, const char *expected)
{
        struct bytes out = {0};

        bytes_append_text(&out, "before ");
        cr_expect(debezium_append_expanded(&out, json, length) == (expected != NULL), "%s", json);
        cr_expect_str_eq(
            out.data + strlen("before "), expected != NULL ? expected : "", "%s", json);
        cr_expect(out.length == strlen(out.data));
        bytes_deinit(&out);
}

static void expect_expanded(const char *json, const char *expected)
{
        expect_bytes(json, strlen(json), expected);
}

static void expect_unexpanded(const char *json)
{
        expect_expanded(json, NULL);
}

Test(debezium_expand, writes_an_object_anew)
{
        expect_expanded("{\"order\": 17}", "{\"order\":17}");
        expect_expanded("{}", "{}");
        expect_expanded(
            "{ \"a\" : { \"b\" : [ true , false ] } }\n", "{\"a\":{\"b\":[true,false]}}");
        expect_expanded("{\"b\":1,\"a\":2,\"b\":3}", "{\"b\":3,\"a\":2}");
        expect_expanded(
            "{\"a.b\":1,\"c d\":2,\"\\u00e9\":3}", "{\"a.b\":1,\"c d\":2,\"\xc3\xa9\":3}");
        expect_expanded("{\"a\":\"\\u0000\\/\\ud83d\\ude00\\u007f\\u000b\"}",
            "{\"a\":\"\\u0000/\\uD83D\\uDE00\x7f\\u000B\"}");
        expect_expanded("{\"\xf0\x9f\x98\x80\":\"\xf0\x9f\x98\x80\"}",
            "{\"\\uD83D\\uDE00\":\"\\uD83D\\uDE00\"}");
}

Test(debezium_expand, reads_numbers_as_int32_int64_and_double)
{
        expect_expanded("{\"a\":1.50,\"b\":1e2,\"c\":-0,\"d\":-0.0,\"e\":1E-5,\"f\":12345678.9}",
            "{\"a\":1.5,\"b\":100.0,\"c\":0,\"d\":-0.0,\"e\":1.0E-5,\"f\":1.23456789E7}");
        expect_expanded("{\"a\":9223372036854775807,\"b\":-9223372036854775808,\"c\":2147483648}",
            "{\"a\":9223372036854775807,\"b\":-9223372036854775808,\"c\":2147483648}");
        expect_expanded("{\"a\":0.1234567890123456789}", "{\"a\":0.12345678901234568}");
        expect_expanded("{\"a\":1e-400}", "{\"a\":0.0}");
}

Test(debezium_expand, leaves_out_members_without_a_value)
{
        expect_expanded("{\"a\":null,\"b\":[],\"c\":{},\"d\":{\"e\":null}}", "{\"c\":{},\"d\":{}}");
        expect_expanded("{\"\":null,\"a\":1}", "{\"a\":1}");
        expect_expanded("{\"a\":[{\"x\":null}]}", "{\"a\":[{}]}");
}

Test(debezium_expand, gives_the_objects_of_an_array_the_same_members)
{
        expect_expanded(
            "{\"a\":[{\"x\":1},{\"y\":2}]}", "{\"a\":[{\"x\":1,\"y\":null},{\"x\":null,\"y\":2}]}");
        expect_expanded("{\"a\":[{\"x\":1},{\"x\":null}]}", "{\"a\":[{\"x\":1},{\"x\":null}]}");
        expect_expanded("{\"a\":[{\"x\":[{\"y\":1}]},{\"x\":[]},{}]}",
            "{\"a\":[{\"x\":[{\"y\":1}]},{\"x\":[]},{\"x\":null}]}");
        expect_expanded("{\"a\":[{\"x\":1},null]}", "{\"a\":[{\"x\":1},null]}");
        expect_expanded(
            "{\"a\":[{}],\"b\":[{},{\"c\":1}]}", "{\"a\":[{}],\"b\":[{\"c\":null},{\"c\":1}]}");
}

Test(debezium_expand, takes_the_type_of_an_array_from_its_items)
{
        expect_expanded("{\"a\":[null,1]}", "{\"a\":[null,1]}");
        expect_expanded("{\"a\":[[1],[],[null],null]}", "{\"a\":[[1],[],[null],null]}");
        expect_expanded("{\"a\":[[[1]],[[null]],[[]]]}", "{\"a\":[[[1]],[[null]],[[]]]}");
        expect_unexpanded("{\"a\":[1,\"x\"]}");
        expect_unexpanded("{\"a\":[1,2.5]}");
        expect_unexpanded("{\"a\":[1,3000000000]}");
        expect_unexpanded("{\"a\":[{\"x\":1},\"s\"]}");
        expect_unexpanded("{\"a\":[{\"x\":1},[]]}");
        expect_unexpanded("{\"a\":[1,[]]}");
        expect_unexpanded("{\"a\":[[1],2]}");
        expect_unexpanded("{\"a\":[null]}");
        expect_unexpanded("{\"a\":[[]]}");
        expect_unexpanded("{\"a\":[[],[1]]}");
        expect_unexpanded("{\"a\":1,\"b\":{\"c\":[{\"d\":[null]}]}}");
}

Test(debezium_expand, leaves_all_but_objects_alone)
{
        expect_unexpanded("[1]");
        expect_unexpanded("[]");
        expect_unexpanded("null");
        expect_unexpanded("\"text\"");
        expect_unexpanded("17");
        expect_unexpanded(" {\"a\":1}");
        expect_unexpanded("{\"\":3}");
        expect_unexpanded("{\"a\":");
        expect_unexpanded("");
        expect_bytes("{\0}", 3, NULL);
}

/* Where Debezium stops, and where it would deliver something else than was published. */
Test(debezium_expand, leaves_alone_what_it_cannot_expand_faithfully)
{
        expect_unexpanded("{\"a\":12345678901234567890}");
        expect_unexpanded("{\"a\":[{\"x\":1},{\"x\":\"s\"}]}");
        expect_unexpanded("{\"a\":[{\"x\":[]},{\"x\":1}]}");
        expect_unexpanded("{\"a\":[[1],[\"x\"]]}");
        expect_unexpanded("{\"a\":[[[1]],[[],[\"x\"]]]}");
        expect_unexpanded("{\"a\":[[[{\"x\":1}]],[[],[{\"y\":1}]]]}");
        expect_unexpanded("{\"a\":1e400}");
        expect_unexpanded("{\"a\":\"\\ud800\"}");
        expect_unexpanded("{\"a\\u0000\":1}");
}

/* Debezium has {"p":null}, and [{"x":null}]. */
Test(debezium_expand, loses_no_member_of_objects_further_down)
{
        expect_expanded("{\"a\":[{\"x\":{\"p\":1}},{\"x\":{\"q\":1}}]}",
            "{\"a\":[{\"x\":{\"p\":1,\"q\":null}},{\"x\":{\"p\":null,\"q\":1}}]}");
        expect_expanded("{\"a\":[[{\"x\":1}],[{\"y\":1}]]}",
            "{\"a\":[[{\"x\":1,\"y\":null}],[{\"x\":null,\"y\":1}]]}");
}

static char *repeat(const char *before, const char *piece, size_t n, const char *after)
{
        struct bytes out = {0};

        bytes_append_text(&out, before);
        for (size_t i = 0; i < n; i++)
                bytes_append_text(&out, piece);
        bytes_append_text(&out, after);
        return out.data;
}

/* An object of one member that holds so many arrays in each other. */
static char *nested(size_t n)
{
        char *left = repeat("{\"a\":", "[", n, "1");
        char *both = repeat(left, "]", n, "}");

        free(left);
        return both;
}

Test(debezium_expand, goes_as_deep_as_jackson)
{
        char *deepest = nested(999);
        char *too_deep = nested(1000);
        char *abyss = repeat("{\"a\":", "[", 1000000, "");

        expect_expanded(deepest, deepest);
        expect_unexpanded(too_deep);
        expect_unexpanded(abyss);
        free(abyss);
        free(too_deep);
        free(deepest);
}

Test(debezium_expand, takes_names_and_numbers_as_long_as_jackson_does)
{
        char *number = repeat("{\"a\":1.", "0", 999, "}");
        char *long_number = repeat("{\"a\":1.", "0", 1000, "}");
        char *name = repeat("{\"", "\xc3\xa9", 50000, "\":1}");
        char *long_name = repeat("{\"", "\\n", 50001, "\" :1}");
        char *text = repeat("{\"a\":\"", "k", 50001, "\"}");

        expect_expanded(number, "{\"a\":1.0}");
        expect_unexpanded(long_number);
        expect_expanded(name, name);
        expect_unexpanded(long_name);
        expect_expanded(text, text);
        free(text);
        free(long_name);
        free(name);
        free(long_number);
        free(number);
}

/* Each object of the array gets the members of all others. */
Test(debezium_expand, does_not_grow_without_bound)
{
        struct bytes json = {0};

        bytes_append_text(&json, "{\"a\":[{}");
        for (int i = 0; i < 5000; i++)
                bytes_printf(&json, ",{\"member%d\":1}", i);
        bytes_append_text(&json, "]}");
        expect_unexpanded(json.data);
        bytes_deinit(&json);
}
