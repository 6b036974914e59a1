# embed_text(target symbol file): compiles `file` into `target` as `const char symbol[]`,
# NUL-terminated, and rebuilds when the file changes.
function(embed_text target symbol file)
  get_filename_component(input ${file} ABSOLUTE)
  set(output ${CMAKE_CURRENT_BINARY_DIR}/${symbol}.c)
  add_custom_command(OUTPUT ${output}
    COMMAND ${CMAKE_COMMAND} -DINPUT=${input} -DOUTPUT=${output} -DSYMBOL=${symbol}
      -P ${CMAKE_SOURCE_DIR}/cmake/embed_script.cmake
    DEPENDS ${input} ${CMAKE_SOURCE_DIR}/cmake/embed_script.cmake VERBATIM)
  target_sources(${target} PRIVATE ${output})
endfunction()

# embed_gzip(target symbol file): the same compressed, as `const unsigned char symbol[]` with
# `const size_t symbol_size`.
function(embed_gzip target symbol file)
  get_filename_component(input ${file} ABSOLUTE)
  set(output ${CMAKE_CURRENT_BINARY_DIR}/${symbol}.c)
  add_custom_command(OUTPUT ${output} BYPRODUCTS ${output}.gz
    COMMAND gzip -9nc ${input} > ${output}.gz
    COMMAND ${CMAKE_COMMAND} -DINPUT=${output}.gz -DOUTPUT=${output} -DSYMBOL=${symbol} -DGZIP=ON
      -P ${CMAKE_SOURCE_DIR}/cmake/embed_script.cmake
    DEPENDS ${input} ${CMAKE_SOURCE_DIR}/cmake/embed_script.cmake VERBATIM)
  target_sources(${target} PRIVATE ${output})
endfunction()
