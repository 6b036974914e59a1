/*
 * Keys and JWTs of an operator of NATS, made once for the tests and good for nothing else: a system
 * account, an account with JetStream, a user of it, and a user whose JWT has expired. Each key is
 * the SHA-256 of a name; the signatures are those of another implementation than ours.
 */
#pragma once

#define OPERATOR_JWT                                                                               \
        "eyJ0eXAiOiJKV1QiLCJhbGciOiJlZDI1NTE5LW5rZXkifQ.eyJpYXQiOjE3MDAwMDAwMDA"                   \
        "sImlzcyI6Ik9EVUROVEQ2QjZHNE1ZWVFFM0JEWU5NMkJBU0xYTktDNkZaQjVMWktYWEg2R"                   \
        "0dZUVJKWkdSNTM3IiwibmFtZSI6InRlc3QiLCJuYXRzIjp7InR5cGUiOiJvcGVyYXRvciI"                   \
        "sInZlcnNpb24iOjIsInN5c3RlbV9hY2NvdW50IjoiQURVM0VaVEIyVlJaM1JNNk5TM0NLT"                   \
        "1FMNlNBVFJMV1lFTzRFTkVUNDNRM0dHN1NaSTNYVFFaQloifSwic3ViIjoiT0RVRE5URDZ"                   \
        "CNkc0TVlZUUUzQkRZTk0yQkFTTFhOS0M2RlpCNUxaS1hYSDZHR1lRUkpaR1I1MzciLCJqd"                   \
        "GkiOiJVWUtKRFhPSDdXS0JOWFFTSzZFQUFCMjRWNUVJWEJMTlpRTktVNTVQM01RWExOUFJ"                   \
        "TUE9BIn0.Brup0iPT02XsrmoR5pt8uOWtgXG4s0b4DHVR4Eogahgfkc-MEHh4hJWv8PZxE"                   \
        "Pi70C0LjeDKJNqWJ6KMW-fiBg"

#define SYSTEM_ACCOUNT "ADU3EZTB2VRZ3RM6NS3CKOQL6SATRLWYEO4ENET43Q3GG7SZI3XTQZBZ"

#define SYSTEM_JWT                                                                                 \
        "eyJ0eXAiOiJKV1QiLCJhbGciOiJlZDI1NTE5LW5rZXkifQ.eyJpYXQiOjE3MDAwMDAwMDA"                   \
        "sImlzcyI6Ik9EVUROVEQ2QjZHNE1ZWVFFM0JEWU5NMkJBU0xYTktDNkZaQjVMWktYWEg2R"                   \
        "0dZUVJKWkdSNTM3IiwibmFtZSI6InN5c3RlbSIsIm5hdHMiOnsibGltaXRzIjp7InN1YnM"                   \
        "iOi0xLCJkYXRhIjotMSwicGF5bG9hZCI6LTEsImltcG9ydHMiOi0xLCJleHBvcnRzIjotM"                   \
        "Swid2lsZGNhcmRzIjp0cnVlLCJjb25uIjotMSwibGVhZiI6LTF9LCJkZWZhdWx0X3Blcm1"                   \
        "pc3Npb25zIjp7InB1YiI6e30sInN1YiI6e319LCJ0eXBlIjoiYWNjb3VudCIsInZlcnNpb"                   \
        "24iOjJ9LCJzdWIiOiJBRFUzRVpUQjJWUlozUk02TlMzQ0tPUUw2U0FUUkxXWUVPNEVORVQ"                   \
        "0M1EzR0c3U1pJM1hUUVpCWiIsImp0aSI6IlNBUFdIT1hURkdDQjQ3N1dZWkRZSUxLUlNQN"                   \
        "VVTT0VPWElaNEFQNjJRREVNT0EySzI1T1EifQ.zVG9Kta8ooqiEuxrqP0hqgbgl0qZzkMW"                   \
        "mhRz5qpViStVZptAmM7moKdGT63v0m3EQ1nloPfcubx3m7oll0rMAQ"

#define ACCOUNT "AAF5EGGGEQD6QTURF2GNLNGLH5EIH2VXJMVWHQ3U67PODRM6SXXUTW7W"

#define ACCOUNT_JWT                                                                                \
        "eyJ0eXAiOiJKV1QiLCJhbGciOiJlZDI1NTE5LW5rZXkifQ.eyJpYXQiOjE3MDAwMDAwMDA"                   \
        "sImlzcyI6Ik9EVUROVEQ2QjZHNE1ZWVFFM0JEWU5NMkJBU0xYTktDNkZaQjVMWktYWEg2R"                   \
        "0dZUVJKWkdSNTM3IiwibmFtZSI6ImFjY291bnQiLCJuYXRzIjp7ImxpbWl0cyI6eyJzdWJ"                   \
        "zIjotMSwiZGF0YSI6LTEsInBheWxvYWQiOi0xLCJpbXBvcnRzIjotMSwiZXhwb3J0cyI6L"                   \
        "TEsIndpbGRjYXJkcyI6dHJ1ZSwiY29ubiI6LTEsImxlYWYiOi0xLCJtZW1fc3RvcmFnZSI"                   \
        "6LTEsImRpc2tfc3RvcmFnZSI6LTEsInN0cmVhbXMiOi0xLCJjb25zdW1lciI6LTF9LCJkZ"                   \
        "WZhdWx0X3Blcm1pc3Npb25zIjp7InB1YiI6e30sInN1YiI6e319LCJ0eXBlIjoiYWNjb3V"                   \
        "udCIsInZlcnNpb24iOjJ9LCJzdWIiOiJBQUY1RUdHR0VRRDZRVFVSRjJHTkxOR0xINUVJS"                   \
        "DJWWEpNVldIUTNVNjdQT0RSTTZTWFhVVFc3VyIsImp0aSI6IjVRQzZNUjY3VEVGTllTSVR"                   \
        "ONEFIU1ROSTM0UUdYUE1FQ0dTT1cyUFdGSFJONVJCQkw1SlEifQ.1hsRy3SnfQR2eUrGZi"                   \
        "zhcktCv6gBgWlZ0d8BbhdSmcvUy8yU34PpfBuHqBiDbvlD8ljViO1HYsmwiDQpcY32Cg"

#define USER_JWT                                                                                   \
        "eyJ0eXAiOiJKV1QiLCJhbGciOiJlZDI1NTE5LW5rZXkifQ.eyJpYXQiOjE3MDAwMDAwMDA"                   \
        "sImlzcyI6IkFBRjVFR0dHRVFENlFUVVJGMkdOTE5HTEg1RUlIMlZYSk1WV0hRM1U2N1BPR"                   \
        "FJNNlNYWFVUVzdXIiwibmFtZSI6InVzZXIiLCJuYXRzIjp7InB1YiI6e30sInN1YiI6e30"                   \
        "sInN1YnMiOi0xLCJkYXRhIjotMSwicGF5bG9hZCI6LTEsInR5cGUiOiJ1c2VyIiwidmVyc"                   \
        "2lvbiI6Mn0sInN1YiI6IlVCNFVDVVI0SjROWkRZRkRPQ1U3N05HSkMzV1g0NlVIQkxJVkZ"                   \
        "UWlI0RkZaVk9OSVNLUVlIT0RPIiwianRpIjoiQ1hOTUw2U0k0VDRNTUhOQklPTElLVzZMV"                   \
        "lMyNDdaSlZNVjdKNUpGM1NDWDJSV1ZNUFhVQSJ9.UdsiJbcyUamS1jBA7Qmrn03kzPSyIK"                   \
        "5Yk60eom9hgig4LqwKzY3dOw-n8KuuRIL5aoDy2yUo1_ER5tfB5q90Dw"

#define USER_SEED "SUAMJ2GGWXJVQMN22ISMLOYVJU3M7FO2C4UUKDH33N72C5AIO4ZWFW2XI4"

#define USER_KEY "UB4UCUR4J4NZDYFDOCU77NGJC3WX46UHBLIVFTZR4FFZVONISKQYHODO"

#define EXPIRED_JWT                                                                                \
        "eyJ0eXAiOiJKV1QiLCJhbGciOiJlZDI1NTE5LW5rZXkifQ.eyJpYXQiOjE3MDAwMDAwMDA"                   \
        "sImlzcyI6IkFBRjVFR0dHRVFENlFUVVJGMkdOTE5HTEg1RUlIMlZYSk1WV0hRM1U2N1BPR"                   \
        "FJNNlNYWFVUVzdXIiwibmFtZSI6ImxhdGUiLCJuYXRzIjp7InB1YiI6e30sInN1YiI6e30"                   \
        "sInN1YnMiOi0xLCJkYXRhIjotMSwicGF5bG9hZCI6LTEsInR5cGUiOiJ1c2VyIiwidmVyc"                   \
        "2lvbiI6Mn0sInN1YiI6IlVCRTZENU42VjNLTFI1M1RLTE5MR0NPNzRMWENITTZQWUVKVEZ"                   \
        "YQzRRVDNMUzZZSjZZSjY1TkVFIiwiZXhwIjoxNzAwMDAwMTAwLCJqdGkiOiIzWTVRNkNHN"                   \
        "lRBTkpaUElRVFpYSUM1VFlPV0ZBTUZKTVMyN0MySk5aTVdUVlRBVFRGWE5RIn0.9gKLKxv"                   \
        "BAwG4Dm6Fh_pX2Nup7LgeM3hmaws-7PwjqQDMKoNp75Cy0ZBaDNGy6YbZn0P8w-cd0jbXr"                   \
        "3GZPmlXAA"

#define EXPIRED_SEED "SUAII5WV7XP5L7TVN3I3QZ5546TECUDYGTFMFVBIITAZO2VSRCEDM6E2G4"

#define ACCOUNT_SEED "SAACP2SS72CPALJUBHD7A277ZMOSNPSSSYGJON3XG2WKWJDHEIOLZBLNMI"
