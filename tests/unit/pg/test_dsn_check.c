/* What is refused before libpq is asked, and that no part of it is shown. */
#include "pg/dsn.h"

#include <criterion/criterion.h>
#include <string.h>

static void expect_accepted(const char *dsn)
{
        struct error error = {0};

        cr_expect(dsn_check(dsn, &error), "%s: %s", dsn, error.text);
}

Test(dsn_check, accepts_a_dsn_that_may_be_right)
{
        expect_accepted("");
        expect_accepted("postgresql://relay@db.example.org/shop");
        expect_accepted("postgres://relay:s%2Fe%40c%3Fret@10.0.0.1:5432/shop?sslmode=require");
        expect_accepted("postgresql://relay:se?cr#et:more@h/shop");
        expect_accepted("postgresql://me%40tenant@h/shop");
        expect_accepted("postgresql://h/shop?user=me@tenant");
        expect_accepted(
            "postgresql://[::1]:5432,b.example:5433/shop?target_session_attrs=read-write");
        expect_accepted("postgresql:///shop?host=/run/postgresql");
        expect_accepted("postgresql://%2Frun%2Fpostgresql/shop");
        expect_accepted("postgresql://h/a%40b");
        expect_accepted("host=/run/postgresql dbname=shop user=relay");
        expect_accepted("host=@abstract dbname=a@b password='s e@c/r'");
        expect_accepted("host=a,b,c port=5432,,5434 hostaddr=10.0.0.1,::1,fe80::1%eth0");
        expect_accepted("host=b\xc3\xbc"
                        "cher.example service=shop");
}

static void expect_refused(const char *dsn, const char *words)
{
        struct error error = {0};

        cr_expect_not(dsn_check(dsn, &error), "%s", dsn);
        cr_expect_eq(error.kind, ERROR_CONFIG);
        cr_expect_not_null(strstr(error.text, words), "%s: %s", dsn, error.text);
        cr_expect_null(strstr(error.text, "CANARY"), "%s: %s", dsn, error.text);
        cr_expect_null(strstr(error.text, "canary"), "%s: %s", dsn, error.text);
}

Test(dsn_check, refuses_a_piece_of_a_password_in_another_place)
{
        expect_refused("CANARY", "If it is a password alone, it belongs to postgres.password");
        expect_refused("CANARY word", "If it is a password alone");
        expect_refused("CANARYWORD=", "does not understand its options");
        expect_refused("postgresql://u:CANARY/word@h/x", "the port is not a number");
        expect_refused("postgresql://u:1234/CANARY@h/x", "there is an @ after the host");
        expect_refused("postgresql://u:CANARY?word/more@h/x", "percent-encoded");
        expect_refused("postgresql://u:1234?CANARY/word@h/x", "percent-encoded");
        expect_refused("postgresql://u:word@CANARY@h/x", "the host is not a name");
        expect_refused("postgresql://u:word@CANARY/more@h/x", "there is an @ after the host");
        expect_refused("postgresql://u:word@CANARY:more@h/x", "the port is not a number");
        expect_refused("postgresql://u:@CANARY@h/x", "the host is not a name");
        expect_refused("postgresql://u:@@CANARY/@h/x", "there is an @ after the host");
        expect_refused("postgresql://u:word@CANARY,more@h/x", "the host is not a name");
        expect_refused("postgresql://u:%ZZCANARY@h/x", "percent-encoded");
        expect_refused("postgresql://u:a@CANARY word/x", "the host is not a name");
        expect_refused("host=word@CANARY", "the host is not a name");
        expect_refused("host=h port=CANARY", "the port is not a number");
        expect_refused("host=h port=65536", "the port is not a number");
        expect_refused("host=h port=5432,CANARY", "the port is not a number");
        expect_refused("hostaddr=CANARY", "hostaddr is not an IP address");
        expect_refused("host=h password=a CANARY user=u", "single quotes");
        expect_refused("host=h password='CANARY", "single quotes");
        expect_refused("host=h CANARY=u", "single quotes");
}

Test(dsn_check, proposes_the_option_that_was_meant)
{
        expect_refused("host=h sslmod=require password=CANARY", "did you mean \"sslmode\"?");
}

Test(dsn_split, leaves_out_secrets_and_takes_another_role)
{
        static const struct {
                const char *dsn;
                const char *expected;
        } cases[] = {
            {"host=h user=a password=hunter2 sslpassword=hunter2 dbname=d",
                "dbname=d host=h user='b c'"},
            {"postgresql://a:hunter2@h/d", "dbname=d host=h user='b c'"},
            {"host=h user=a", "host=h dbname=shop user='b c'"},
            {NULL, "dbname=shop user='b c'"},
        };

        for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
                char *dsn = dsn_of_role(cases[i].dsn, "b c", "shop");

                cr_expect_str_eq(dsn, cases[i].expected, "%zu: %s", i, dsn);
                free(dsn);
        }
}
