# A newer version serves who asks for an older one of the same first number.
set(PACKAGE_VERSION "@VERSION@")
string(REGEX MATCH "^[0-9]+" _kolo_major "${PACKAGE_VERSION}")
if(PACKAGE_FIND_VERSION VERSION_GREATER PACKAGE_VERSION
    OR NOT PACKAGE_FIND_VERSION MATCHES "^${_kolo_major}(\\.|$)")
  set(PACKAGE_VERSION_COMPATIBLE FALSE)
else()
  set(PACKAGE_VERSION_COMPATIBLE TRUE)
  if(PACKAGE_FIND_VERSION VERSION_EQUAL PACKAGE_VERSION)
    set(PACKAGE_VERSION_EXACT TRUE)
  endif()
endif()
# Without a number, any will do.
if(PACKAGE_FIND_VERSION STREQUAL "")
  set(PACKAGE_VERSION_COMPATIBLE TRUE)
endif()
unset(_kolo_major)
