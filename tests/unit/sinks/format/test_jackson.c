#include "sinks/format/jackson.h"

#include "base/bytes.h"

#include <criterion/criterion.h>
#include <string.h>

static void expect_text(const char *text, size_t length, const char *expected)
{
        struct bytes out = {0};

        jackson_append_text(&out, text, length);
        cr_expect_str_eq(out.data, expected);
        cr_expect(out.length == strlen(expected));
        bytes_deinit(&out);
}

#define EXPECT_TEXT(text, expected) expect_text(text, sizeof(text) - 1, expected)

Test(jackson, escapes_what_jackson_escapes_and_nothing_else)
{
        EXPECT_TEXT("", "\"\"");
        EXPECT_TEXT("{\"order\": 17}", "\"{\\\"order\\\": 17}\"");
        EXPECT_TEXT("a/b\\c", "\"a/b\\\\c\"");
        EXPECT_TEXT("\b\t\n\f\r", "\"\\b\\t\\n\\f\\r\"");
        EXPECT_TEXT("\x01\x0b\x1f\x7f", "\"\\u0001\\u000B\\u001F\x7f\"");
        EXPECT_TEXT("a\0b", "\"a\\u0000b\"");
        EXPECT_TEXT("<>&'", "\"<>&'\"");
}

Test(jackson, keeps_characters_and_splits_those_beyond_the_first_plane)
{
        EXPECT_TEXT("\xc3\xa9\xe2\x82\xac", "\"\xc3\xa9\xe2\x82\xac\"");
        EXPECT_TEXT("\xe2\x80\xa8\xef\xbb\xbf", "\"\xe2\x80\xa8\xef\xbb\xbf\"");
        EXPECT_TEXT("\xf0\x9f\x98\x80", "\"\\uD83D\\uDE00\"");
        EXPECT_TEXT("\xf0\x90\x80\x80\xf4\x8f\xbf\xbf", "\"\\uD800\\uDC00\\uDBFF\\uDFFF\"");
}

Test(jackson, replaces_what_is_not_utf8)
{
        EXPECT_TEXT("a\xff", "\"a\xef\xbf\xbd\"");
        EXPECT_TEXT("\xe2\x82", "\"\xef\xbf\xbd\xef\xbf\xbd\"");
        EXPECT_TEXT("\xed\xa0\x80x", "\"\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbdx\"");
        /* The length says where it ends, not a character that goes on. */
        expect_text("\xc3\xa9", 1, "\"\xef\xbf\xbd\"");
}

static void expect_double(double number, const char *expected)
{
        struct bytes out = {0};

        jackson_append_double(&out, number);
        cr_expect_str_eq(out.data, expected);
        bytes_deinit(&out);
}

Test(jackson, writes_numbers_plainly_between_a_thousandth_and_ten_millions)
{
        expect_double(1.50, "1.5");
        expect_double(1e2, "100.0");
        expect_double(0.0, "0.0");
        expect_double(-0.0, "-0.0");
        expect_double(0.001, "0.001");
        expect_double(0.0123, "0.0123");
        expect_double(0.00099, "9.9E-4");
        expect_double(9999999.0, "9999999.0");
        expect_double(1e7, "1.0E7");
        expect_double(12345678.9, "1.23456789E7");
        expect_double(-1e10, "-1.0E10");
        expect_double(1234567.125, "1234567.125");
}

/* What com.fasterxml.jackson.core.io.schubfach, the algorithm of Java 19, makes of them. */
Test(jackson, writes_as_few_digits_as_mean_the_number)
{
        expect_double(0.1, "0.1");
        expect_double(0.1 + 0.2, "0.30000000000000004");
        expect_double(1e23, "1.0E23");
        expect_double(2e23, "2.0E23");
        expect_double(1.7976931348623157e308, "1.7976931348623157E308");
        expect_double(2.2250738585072014e-308, "2.2250738585072014E-308");
        expect_double(4.9e-324, "4.9E-324");
        expect_double(2e-323, "2.0E-323");
        expect_double(9.5e-323, "9.4E-323");
        expect_double(0x1p-44, "5.684341886080802E-14"); /* the nearest 16 digits are another one */
        expect_double(9007199254740993.0, "9.007199254740992E15");
}
