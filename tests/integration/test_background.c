/* examples/background as it stands there: its SQL, its configuration and its templates, with a real
 * mail server and a real receiver of the webhook. */
#include "base/alloc.h"
#include "support/http_receiver.h"
#include "support/postgres_expect.h"
#include "support/relay_process.h"
#include "support/smtp_receiver.h"

#include <jansson.h>
#include <stdio.h>
#include <unistd.h>

static struct test_database database;
static struct smtp_receiver smtp;
static struct http_receiver *hooks;
static struct relay_process *relay;

static void apply(const char *path)
{
        char *sql = read_file(path);

        database_exec(database.admin, sql);
        free(sql);
}

static void set_environment(void)
{
        char *mail = xasprintf("smtp://127.0.0.1:%u", smtp.port);
        char *hook = xasprintf("http://127.0.0.1:%u/beat", http_receiver_port(hooks));

        setenv("SHOP_DSN", database.relay, 1);
        setenv("SHOP_SMTP", mail, 1);
        setenv("SHOP_HEARTBEAT", hook, 1);
        free(mail);
        free(hook);
}

/* The live page has a port that may be taken here. */
static char *configuration(void)
{
        char *text = read_file(EXAMPLE "/pgcourier.yaml");
        char *admin = strstr(text, "admin: {}\n");

        cr_assert_not_null(admin);
        memset(admin, '#', strlen("admin: {}"));
        return text;
}

static void prepare(void)
{
        char *text = configuration();

        database = test_database_make();
        smtp_receiver_init(&smtp);
        smtp_receiver_start(&smtp, (const char *const[]){NULL});
        hooks = http_receiver_start(NULL, NULL);
        database_make_inbox(database.admin);
        apply(EXAMPLE "/background.sql");
        database_exec(database.admin,
            "CREATE ROLE background_relay LOGIN IN ROLE courier_relay, shop_jobs;"
            "INSERT INTO shop.customer (name, email) VALUES ('Ann', 'ann@example.org'),"
            " ('Bob', 'bob@example.org')");
        free(database.relay);
        database.relay = dsn_as_user(database.dsn, "background_relay");
        set_environment();
        cr_assert_eq(chdir(EXAMPLE), 0); /* the templates' folder is named from there */
        relay = relay_start("%s", text);
        relay_wait_for_log(relay, "event=lane_owned sink=heartbeat", 30000);
        free(text);
}

static void clean_up(void)
{
        relay_stop(relay);
        relay_destroy(relay);
        http_receiver_destroy(hooks);
        smtp_receiver_deinit(&smtp);
        test_database_drop(&database);
}

static bool is_one(void *sql)
{
        return database_integer(database.admin, sql) == 1;
}

#define AWAIT(sql) wait_until(is_one, (void *)(uintptr_t)(sql), 30000, sql)

static void expect_roll_up(void)
{
        database_exec(database.admin, "INSERT INTO shop.cart (customer, cents, paid_at) SELECT 1, "
                                      "500, now() - interval '1 day'"
                                      " FROM generate_series(1, 3)");
        database_exec(database.admin, "SELECT courier.run_schedule('rollup')");
        AWAIT("SELECT count(*) FROM shop.daily_sales WHERE carts = 3 AND cents = 1500");
        AWAIT("SELECT count(*) FROM courier.attempt WHERE answer LIKE '%: 3 carts, 1500 cents'");
}

static bool is_request(void *receiver)
{
        return http_receiver_n_requests(receiver) > 0;
}

static void expect_heartbeat(void)
{
        const struct http_request *request;

        database_exec(database.admin, "SELECT courier.run_schedule('heartbeat')");
        wait_until(is_request, hooks, 30000, "a heartbeat");
        request = http_receiver_request(hooks, 0);
        cr_expect_str_eq(request->target, "/beat");
        cr_expect(strstr(request->body, "{\"beat\": \"") != NULL, "%s", request->body);
}

static void expect_mail(const json_t *mails, size_t i, const char *to, const char *subject)
{
        const json_t *mail = json_array_get(mails, i);
        const char *rcpt = json_string_value(json_array_get(json_object_get(mail, "rcpt_tos"), 0));

        cr_expect_str_eq(rcpt, to);
        cr_expect_str_eq(smtp_mail_header(mail, "Subject"), subject);
}

static void expect_letters(void)
{
        json_t *mails;

        database_exec(database.admin, "SELECT courier.run_schedule('letters')");
        mails = smtp_receiver_wait_for(&smtp, 2);
        cr_expect_eq(json_array_size(mails), 2);
        for (size_t i = 0; i < 2; i++)
                cr_expect_str_eq(smtp_mail_header(json_array_get(mails, i), "Subject"), "Letter 0");
        json_decref(mails);
}

/* Ann pays in time, Bob does not: his reminder is moved to now, as no test can wait for two
 * hours. */
static void expect_reminder(void)
{
        json_t *mails;

        database_exec(database.admin, "SELECT shop.leave_cart(1, 700), shop.leave_cart(2, 900)");
        AWAIT("SELECT count(*) / 2 FROM courier.parked WHERE state = 'delayed'");
        expect_value(database.admin,
            "SELECT shop.pay_cart((SELECT max(id) FROM shop.cart WHERE customer = 1))", "t");
        expect_value(database.admin,
            "SELECT courier.reschedule((SELECT reminder FROM shop.cart WHERE customer = 2), now())",
            "t");
        mails = smtp_receiver_wait_for(&smtp, 3);
        expect_mail(mails, 2, "bob@example.org", "Your cart");
        json_decref(mails);
        AWAIT("SELECT 1 - count(*) FROM courier.parked");
        expect_value(database.admin,
            "SELECT shop.pay_cart((SELECT id FROM shop.cart WHERE customer = 2))", "f");
        mails = smtp_receiver_mails(&smtp);
        cr_expect_eq(json_array_size(mails), 3, "Ann has paid");
        json_decref(mails);
}

Test(background, does_what_the_example_says, .init = prepare, .fini = clean_up, .timeout = 180)
{
        expect_roll_up();
        expect_heartbeat();
        expect_letters();
        expect_reminder();
        apply(EXAMPLE "/background.sql"); /* again, as with each deployment */
        expect_value(database.admin, "SELECT count(*) FROM courier.schedule", "3");
}
