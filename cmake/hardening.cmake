add_library(pgcourier_hardening INTERFACE)
if(PGCOURIER_SANITIZE)
  # Fortify and trivial initialisation would hide what the sanitizers look for.
  target_compile_options(pgcourier_hardening INTERFACE
    -fsanitize=${PGCOURIER_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  target_link_options(pgcourier_hardening INTERFACE -fsanitize=${PGCOURIER_SANITIZE})
  if(PGCOURIER_FUZZ)
    # libFuzzer is led by which edges of our code an input passes.
    target_compile_options(pgcourier_hardening INTERFACE -fsanitize=fuzzer-no-link)
  else()
    # There are some hundred test programs to link; this takes a fifth of the time.
    check_linker_flag(C -fuse-ld=gold PGCOURIER_HAS_GOLD)
    if(PGCOURIER_HAS_GOLD)
      target_link_options(pgcourier_hardening INTERFACE -fuse-ld=gold)
    endif()
  endif()
else()
  foreach(flag -fstack-protector-strong -fstack-clash-protection -fcf-protection=full
      -ftrivial-auto-var-init=zero -fzero-call-used-regs=used-gpr
      -fno-delete-null-pointer-checks -fno-strict-overflow)
    string(MAKE_C_IDENTIFIER "HAVE${flag}" have)
    check_c_compiler_flag(${flag} ${have})
    if(${have})
      target_compile_options(pgcourier_hardening INTERFACE ${flag})
    endif()
  endforeach()
  if(NOT CMAKE_BUILD_TYPE STREQUAL "Debug")
    # The same sources give the same program, wherever they are built.
    target_compile_options(pgcourier_hardening INTERFACE -U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=3
      -ffile-prefix-map=${CMAKE_SOURCE_DIR}=. -ffile-prefix-map=${CMAKE_BINARY_DIR}=build)
  endif()
  target_link_options(pgcourier_hardening INTERFACE -pie -Wl,-z,relro,-z,now -Wl,-z,noexecstack)
endif()
