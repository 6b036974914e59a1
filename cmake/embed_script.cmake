file(READ ${INPUT} hex HEX)
string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${hex}")
if(GZIP)
  file(WRITE ${OUTPUT} "#include <stddef.h>\nextern const unsigned char ${SYMBOL}[];\n"
    "const unsigned char ${SYMBOL}[] = {${bytes}};\n"
    "extern const size_t ${SYMBOL}_size;\nconst size_t ${SYMBOL}_size = sizeof ${SYMBOL};\n")
else()
  file(WRITE ${OUTPUT} "extern const char ${SYMBOL}[];\nconst char ${SYMBOL}[] = {${bytes}0x00};\n")
endif()
