/* Self-signed certificates for tests, made on the spot by openssl; they belong to the user that
 * servers run as. Names are as openssl writes them ("DNS:localhost"). */
#pragma once

struct certificate {
        char *folder;
        char path[128];
        char key_path[128];
};

/* In a folder of its own, valid for two days. */
void certificate_make(struct certificate *certificate, const char *subject_names);

/* Valid for so many days, until yesterday with "-1". */
void certificate_make_for(
    struct certificate *certificate, const char *subject_names, const char *days);

/* As cert.pem and key.pem in that folder. */
void certificate_make_in(
    struct certificate *certificate, char *folder, const char *subject_names, const char *days);
