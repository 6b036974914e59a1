/* stub */ extern int redis_driver_stub; int redis_driver_stub;
