# kolo for CMake. What it defines, as far as it is installed:
#
#   kolo::kolo              the library without MPI (C, C++)
#   kolo::mpi_openmpi       with koloCommInitMPI, for Open MPI; also kolo::mpi_mpich (with all that
#                           share its interface) and kolo::mpi_abi (MPI 5's standard interface)
#   kolo::mpi               the one of the MPI that find_package(MPI) has found, or the only one;
#                           kolo_MPI names it (openmpi, mpich or abi), and may be set before
#   kolo::fortran           the Fortran module of the compiler in use; the language must be enabled
#   kolo::fortran_f08_openmpi, kolo::fortran_f08_mpich    for programs that use mpi_f08
#   kolo::fortran_f08       the one of kolo::mpi
#
#   find_package(MPI REQUIRED)
#   find_package(kolo REQUIRED COMPONENTS mpi)
#   target_link_libraries(model PRIVATE kolo::mpi MPI::MPI_C)
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

# What is there, and what of it serves the MPI that was found: its header says which one that is.
set(_kolo_there "")
set(_kolo_families "")
foreach(_kolo_part kolo mpi_openmpi mpi_mpich mpi_abi fortran fortran_f08_openmpi fortran_f08_mpich)
  if(TARGET kolo::${_kolo_part})
    list(APPEND _kolo_there kolo::${_kolo_part})
    if(_kolo_part MATCHES "^mpi_(.*)")
      list(APPEND _kolo_families ${CMAKE_MATCH_1})
    endif()
  endif()
endforeach()
list(JOIN _kolo_there ", " _kolo_there)
set(_kolo_found "")
set(_kolo_mpi "no MPI was looked for: call find_package(MPI) before")
set(_kolo_folders ${MPI_C_INCLUDE_DIRS} ${MPI_CXX_INCLUDE_DIRS} ${MPI_Fortran_INCLUDE_DIRS})
# A compiler that is the MPI's wrapper (CC=mpicc) needs no folders, so that none are found: it says
# itself which ones it adds.
foreach(_kolo_language C CXX Fortran)
  if(NOT _kolo_folders AND MPI_${_kolo_language}_FOUND AND CMAKE_${_kolo_language}_COMPILER)
    execute_process(COMMAND "${CMAKE_${_kolo_language}_COMPILER}" -show
      OUTPUT_VARIABLE _kolo_lines ERROR_QUIET)
    string(REGEX MATCHALL "-I *[^ \n]+" _kolo_folders "${_kolo_lines}")
    list(TRANSFORM _kolo_folders REPLACE "^-I *" "")
  endif()
endforeach()
foreach(_kolo_folder ${_kolo_folders})
  if(NOT _kolo_found AND EXISTS "${_kolo_folder}/mpi.h")
    # Of Open MPI alone; MPI 5's standard interface; the others have MPICH's.
    file(STRINGS "${_kolo_folder}/mpi.h" _kolo_lines REGEX
      "define +(OMPI_MAJOR_VERSION|MPICH_NUMVERSION|I_MPI_VERSION|MPI_ABI)")
    if(_kolo_lines MATCHES "OMPI_MAJOR_VERSION")
      set(_kolo_found openmpi)
    elseif(_kolo_lines MATCHES "MPICH|I_MPI")
      set(_kolo_found mpich)
    elseif(_kolo_lines MATCHES "MPI_ABI")
      set(_kolo_found abi)
    endif()
    set(_kolo_mpi "the MPI of ${_kolo_folder} is ${_kolo_found}")
  endif()
endforeach()
# Wrappers of some machines say nothing, and find MPI's header all the same.
foreach(_kolo_language C CXX)
  if(NOT _kolo_found AND MPI_${_kolo_language}_FOUND AND CMAKE_${_kolo_language}_COMPILER)
    set(_kolo_source "${CMAKE_BINARY_DIR}/CMakeFiles/kolo-which-mpi.c")
    file(WRITE "${_kolo_source}" "#include <mpi.h>
#if defined OMPI_MAJOR_VERSION
the_mpi_is openmpi
#elif defined MPICH_NUMVERSION || defined I_MPI_VERSION
the_mpi_is mpich
#elif defined MPI_ABI
the_mpi_is abi
#endif
")
    execute_process(COMMAND "${CMAKE_${_kolo_language}_COMPILER}" -E "${_kolo_source}"
      OUTPUT_VARIABLE _kolo_lines ERROR_QUIET)
    if(_kolo_lines MATCHES "the_mpi_is ([a-z]+)")
      set(_kolo_found ${CMAKE_MATCH_1})
      set(_kolo_mpi "the MPI of ${CMAKE_${_kolo_language}_COMPILER} is ${_kolo_found}")
    endif()
  endif()
endforeach()
if(NOT kolo_MPI)
  set(kolo_MPI "${_kolo_found}")
  list(LENGTH _kolo_families _kolo_number)
  if(NOT kolo_MPI AND _kolo_number EQUAL 1)
    set(kolo_MPI "${_kolo_families}")
  endif()
endif()
foreach(_kolo_part mpi fortran_f08)
  if(kolo_MPI AND NOT TARGET kolo::${_kolo_part} AND TARGET kolo::${_kolo_part}_${kolo_MPI})
    add_library(kolo::${_kolo_part} INTERFACE IMPORTED)
    set_target_properties(kolo::${_kolo_part} PROPERTIES
      INTERFACE_LINK_LIBRARIES kolo::${_kolo_part}_${kolo_MPI})
  endif()
endforeach()

foreach(_kolo_part ${kolo_FIND_COMPONENTS})
  if(TARGET kolo::${_kolo_part})
    set(kolo_${_kolo_part}_FOUND TRUE)
  else()
    set(kolo_${_kolo_part}_FOUND FALSE)
    if(kolo_FIND_REQUIRED_${_kolo_part})
      set(kolo_FOUND FALSE)
      set(kolo_NOT_FOUND_MESSAGE "kolo in ${_kolo_prefix} has no kolo::${_kolo_part}; it \
has ${_kolo_there} (${_kolo_mpi}). Remedy: take one of these, or install kolo for this MPI and this \
Fortran compiler (make install MPI=... COMPILERS=...); for kolo::fortran enable the language Fortran \
before find_package")
    endif()
  endif()
endforeach()

unset(_kolo_prefix)
unset(_kolo_family)
unset(_kolo_fortran)
unset(_kolo_modules)
unset(_kolo_part)
unset(_kolo_there)
unset(_kolo_families)
unset(_kolo_found)
unset(_kolo_mpi)
unset(_kolo_lines)
unset(_kolo_number)
unset(_kolo_folder)
unset(_kolo_folders)
unset(_kolo_language)
unset(_kolo_source)
