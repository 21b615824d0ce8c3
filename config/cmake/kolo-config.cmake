# kolo for CMake. What it defines, as far as it is installed:
#
#   kolo::kolo              the library without MPI (C, C++)
#   kolo::mpi_openmpi       with koloCommInitMPI, for Open MPI; also kolo::mpi_mpich (with all that
#                           share its interface) and kolo::mpi_abi (MPI 5's standard interface)
#   kolo::fortran           the Fortran module of the compiler in use; the language must be enabled
#   kolo::fortran_f08_openmpi, kolo::fortran_f08_mpich    for programs that use mpi_f08
#
#   find_package(MPI REQUIRED)
#   find_package(kolo REQUIRED COMPONENTS mpi_openmpi)
#   target_link_libraries(model PRIVATE kolo::mpi_openmpi MPI::MPI_C)
#
# All paths are relative to this file, so that the tree may be moved.
get_filename_component(_kolo_prefix "${CMAKE_CURRENT_LIST_DIR}/../../.." ABSOLUTE)

# _kolo_library(TARGET FILE): a shared library of the tree, if it is there.
macro(_kolo_library target file)
  if(NOT TARGET ${target} AND EXISTS "${_kolo_prefix}/lib/${file}")
    add_library(${target} SHARED IMPORTED)
    get_filename_component(_kolo_soname "${file}" NAME)
    set_target_properties(${target} PROPERTIES
      IMPORTED_LOCATION "${_kolo_prefix}/lib/${file}"
      IMPORTED_SONAME "${_kolo_soname}"
      INTERFACE_INCLUDE_DIRECTORIES "${_kolo_prefix}/include")
    unset(_kolo_soname)
  endif()
endmacro()

_kolo_library(kolo::kolo libkolo.so.0)

foreach(_kolo_family openmpi mpich abi)
  _kolo_library(kolo::only_mpi_${_kolo_family} kolo/${_kolo_family}/libkolo_mpi.so.0)
  if(NOT TARGET kolo::mpi_${_kolo_family} AND TARGET kolo::only_mpi_${_kolo_family})
    add_library(kolo::mpi_${_kolo_family} INTERFACE IMPORTED)
    # Fortran programs name nothing of this library, and would lose it where --as-needed is usual.
    set_target_properties(kolo::mpi_${_kolo_family} PROPERTIES INTERFACE_LINK_LIBRARIES
      "-Wl,--push-state,--no-as-needed;kolo::only_mpi_${_kolo_family};-Wl,--pop-state;kolo::kolo")
  endif()
endforeach()

# The name by which the Fortran compiler's module and library are installed.
set(_kolo_fortran "")
if(CMAKE_Fortran_COMPILER_ID STREQUAL "GNU")
  set(_kolo_fortran gfortran)
elseif(CMAKE_Fortran_COMPILER_ID MATCHES "Flang$")
  set(_kolo_fortran flang)
elseif(CMAKE_Fortran_COMPILER)
  get_filename_component(_kolo_fortran "${CMAKE_Fortran_COMPILER}" NAME)
endif()
if(_kolo_fortran)
  set(_kolo_modules "${_kolo_prefix}/include/kolo/${_kolo_fortran}")
  _kolo_library(kolo::fortran libkolo_fortran_${_kolo_fortran}.so.0)
  if(TARGET kolo::fortran)
    set_target_properties(kolo::fortran PROPERTIES
      INTERFACE_INCLUDE_DIRECTORIES "${_kolo_modules}"
      INTERFACE_LINK_LIBRARIES kolo::kolo)
    foreach(_kolo_family openmpi mpich)
      if(NOT TARGET kolo::fortran_f08_${_kolo_family} AND TARGET kolo::mpi_${_kolo_family}
          AND EXISTS "${_kolo_modules}/${_kolo_family}/kolo_mpi_f08.mod")
        add_library(kolo::fortran_f08_${_kolo_family} INTERFACE IMPORTED)
        set_target_properties(kolo::fortran_f08_${_kolo_family} PROPERTIES
          INTERFACE_INCLUDE_DIRECTORIES "${_kolo_modules}/${_kolo_family}"
          INTERFACE_LINK_LIBRARIES "kolo::fortran;kolo::mpi_${_kolo_family}")
      endif()
    endforeach()
  endif()
endif()

foreach(_kolo_part ${kolo_FIND_COMPONENTS})
  if(TARGET kolo::${_kolo_part})
    set(kolo_${_kolo_part}_FOUND TRUE)
  else()
    set(kolo_${_kolo_part}_FOUND FALSE)
    if(kolo_FIND_REQUIRED_${_kolo_part})
      set(kolo_FOUND FALSE)
      set(kolo_NOT_FOUND_MESSAGE "kolo in ${_kolo_prefix} has no kolo::${_kolo_part}. Remedy: \
install it for this MPI and this Fortran compiler (make install MPI=... COMPILERS=...); for \
kolo::fortran enable the language Fortran before find_package")
    endif()
  endif()
endforeach()

unset(_kolo_prefix)
unset(_kolo_family)
unset(_kolo_fortran)
unset(_kolo_modules)
unset(_kolo_part)
