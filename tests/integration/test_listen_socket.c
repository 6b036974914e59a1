/* Sockets to listen on: what happens to a path that is there already, and afterwards. */
#include "base/alloc.h"
#include "loop/http/listen_socket.h"
#include "support/process.h"

#include <criterion/criterion.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static struct listen_address address_of(const char *path)
{
        char *text = xasprintf("unix:%s", path);
        struct listen_address address;

        cr_assert_null(listen_address_parse(text, &address));
        free(text);
        return address;
}

static char *new_path(void)
{
        char *folder = temp_folder();
        char *path = xasprintf("%s/s", folder);

        free(folder);
        return path;
}

static bool is_there(const char *path)
{
        return access(path, F_OK) == 0;
}

Test(listen_socket, lets_owner_and_group_in_and_no_other_user)
{
        char *path = new_path();
        struct listen_address address = address_of(path);
        struct listen_socket socket;
        struct error error = {0};
        struct stat status;

        umask(0);
        cr_assert(listen_socket_open(&socket, &address, &error), "%s", error.text);

        cr_assert_eq(lstat(path, &status), 0);
        cr_expect_eq(status.st_mode & 07777, 0660, "%o", status.st_mode);
        close(socket.file);
        listen_socket_remove(&socket);
        cr_expect_not(is_there(path));
        free(path);
}

Test(listen_socket, replaces_what_a_killed_relay_left)
{
        char *path = new_path();
        struct listen_address address = address_of(path);
        struct listen_socket killed;
        struct listen_socket socket;
        struct error error = {0};

        cr_assert(listen_socket_open(&killed, &address, &error), "%s", error.text);
        close(killed.file);

        cr_assert(listen_socket_open(&socket, &address, &error), "%s", error.text);

        /* What belongs to another one by now stays. */
        listen_socket_remove(&killed);
        cr_expect(is_there(path));
        close(socket.file);
        listen_socket_remove(&socket);
        free(path);
}

Test(listen_socket, leaves_a_relay_that_answers_alone)
{
        char *path = new_path();
        struct listen_address address = address_of(path);
        struct listen_socket first;
        struct listen_socket second;
        struct error error = {0};

        cr_assert(listen_socket_open(&first, &address, &error), "%s", error.text);

        cr_expect_not(listen_socket_open(&second, &address, &error));

        cr_expect_not_null(strstr(error.text, "another process listens there"), "%s", error.text);
        cr_expect(is_there(path));
        close(first.file);
        listen_socket_remove(&first);
        free(path);
}

Test(listen_socket, removes_no_file_that_is_no_socket)
{
        char *path = new_path();
        struct listen_address address = address_of(path);
        struct listen_socket socket;
        struct error error = {0};

        close(open(path, O_CREAT | O_WRONLY, 0600));

        cr_expect_not(listen_socket_open(&socket, &address, &error));

        cr_expect_eq(error.kind, ERROR_CONFIG);
        cr_expect_not_null(strstr(error.text, "is there and is no socket"), "%s", error.text);
        cr_expect(is_there(path));
        free(path);
}
