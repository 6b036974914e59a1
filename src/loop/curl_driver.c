/* stub */ extern int curl_driver_stub; int curl_driver_stub;
