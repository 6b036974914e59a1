#include "support/certificate.h"

#include "support/process.h"

#include <stdio.h>

static bool sign(
    const struct certificate *certificate, const char *request, const char *const *validity)
{
        const char *const argv[] = {"openssl", "x509", "-req", "-in", request, "-signkey",
            certificate->key_path, "-copy_extensions", "copy", "-out", certificate->path,
            validity[0], validity[1], validity[2], validity[3], NULL};

        return process_run(argv, NULL, true) == 0;
}

void certificate_make_in(
    struct certificate *certificate, char *folder, const char *subject_names, const char *days)
{
        /* OpenSSL 3.5 refuses negative days; 3.0 takes no dates. */
        static const char *const past[] = {
            "-not_before", "20200101000000Z", "-not_after", "20200102000000Z"};
        const char *const usual[4] = {"-days", days};
        char request_path[128];
        char extension[128];

        certificate->folder = folder;
        snprintf(certificate->path, sizeof certificate->path, "%s/cert.pem", folder);
        snprintf(certificate->key_path, sizeof certificate->key_path, "%s/key.pem", folder);
        snprintf(extension, sizeof extension, "subjectAltName=%s", subject_names);
        snprintf(request_path, sizeof request_path, "%s/request.pem", folder);
        const char *const request[] = {"openssl", "req", "-new", "-newkey", "ec", "-pkeyopt",
            "ec_paramgen_curve:P-256", "-nodes", "-subj", "/CN=pgcourier test", "-addext",
            extension, "-keyout", certificate->key_path, "-out", request_path, NULL};

        if (process_run(request, NULL, true) != 0 ||
            (!sign(certificate, request_path, usual) &&
                (days[0] != '-' || !sign(certificate, request_path, past))))
                test_abort("openssl cannot make a certificate");
}

void certificate_make_for(
    struct certificate *certificate, const char *subject_names, const char *days)
{
        certificate_make_in(certificate, temp_folder(), subject_names, days);
}

void certificate_make(struct certificate *certificate, const char *subject_names)
{
        certificate_make_for(certificate, subject_names, "2");
}
