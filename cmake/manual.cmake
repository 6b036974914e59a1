# Manual pages and shell completions, made by tools/ of the tables that the program works by.
# Pages take scdoc; without it there are none. What is installed is compressed, as packages want it.
find_program(SCDOC scdoc)
find_program(GZIP gzip)
set(generated ${CMAKE_BINARY_DIR}/package)
set(made)

if(SCDOC AND GZIP)
  foreach(page pgcourier.1 pgcourier.yaml.5)
    set(source ${CMAKE_SOURCE_DIR}/man/${page}.scd)
    # Not by a pipe: scdoc alone would not notice that the tool failed.
    add_custom_command(OUTPUT ${generated}/${page}.gz
      COMMAND pgcourier-tools manual < ${source} > ${generated}/${page}.scd
      COMMAND ${SCDOC} < ${generated}/${page}.scd > ${generated}/${page}
      COMMAND ${GZIP} -9nf ${generated}/${page}
      DEPENDS pgcourier-tools ${source} VERBATIM)
    list(APPEND made ${generated}/${page}.gz)
    string(REGEX MATCH "[0-9]$" section ${page})
    install(FILES ${generated}/${page}.gz DESTINATION ${CMAKE_INSTALL_MANDIR}/man${section} COMPONENT runtime)
  endforeach()
else()
  message(STATUS "No manual pages: scdoc or gzip is missing")
endif()

foreach(shell bash zsh fish)
  add_custom_command(OUTPUT ${generated}/completion.${shell}
    COMMAND pgcourier-tools completion ${shell} > ${generated}/completion.${shell}
    DEPENDS pgcourier-tools VERBATIM)
  list(APPEND made ${generated}/completion.${shell})
endforeach()
install(FILES ${generated}/completion.bash RENAME pgcourier
  DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions COMPONENT runtime)
install(FILES ${generated}/completion.zsh RENAME _pgcourier
  DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/vendor-completions COMPONENT runtime)
install(FILES ${generated}/completion.fish RENAME pgcourier.fish
  DESTINATION ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d COMPONENT runtime)

add_custom_target(pgcourier_manual ALL DEPENDS ${made})
