// SPDX-License-Identifier: BSD-3-Clause
// Everything that differs between the MPI ABI families. The folder src/mpi is compiled once for each family;
// see cmake/families.cmake.
//
//  openmpi   Open MPI 4.1 to 6.0    handles are addresses of data in libmpi
//  mpich     MPICH, Intel MPI, ...  handles are integers
//  mpiabi    MPI 5.0 standard ABI   handles are small constants in pointers
#pragma once

#if defined(OFFBEAT_FAMILY_MPIABI)
#include <mpi_abi.h>
#else
#include <mpi.h>
#endif

#include <atomic>
#include <cstdint>
#include <string_view>

namespace offbeat::abi {

#if defined(OFFBEAT_FAMILY_OPENMPI)
inline constexpr std::string_view family = "openmpi";
#elif defined(OFFBEAT_FAMILY_MPICH)
inline constexpr std::string_view family = "mpich";
#elif defined(OFFBEAT_FAMILY_MPIABI)
inline constexpr std::string_view family = "mpiabi";
#else
#error "compile with OFFBEAT_FAMILY_OPENMPI, OFFBEAT_FAMILY_MPICH or OFFBEAT_FAMILY_MPIABI"
#endif

// Returns the address of a data symbol of the host MPI, or null if it has none. This is slow.
[[nodiscard]] void* host_data(const char* name);

// Returns that address and keeps it in `kept` once it is found. A program may load its MPI later.
[[nodiscard]] inline void* host_data(const char* name, std::atomic<void*>& kept) {
  void* found = kept.load(std::memory_order_relaxed);
  if (found == nullptr) [[unlikely]] {
    found = host_data(name);
    kept.store(found, std::memory_order_relaxed);
  }
  return found;
}

}  // namespace offbeat::abi

#if defined(OFFBEAT_FAMILY_OPENMPI)
// Open MPI's MPI_FLOAT is the address of ompi_mpi_float. A python process under this preload has no libmpi at
// its start, and an unresolved symbol would keep it from starting. So every handle is looked up by name at
// its first use.
#undef OMPI_PREDEFINED_GLOBAL
#define OMPI_PREDEFINED_GLOBAL(type, global)         \
  static_cast<type>([] {                             \
    static std::atomic<void*> kept{nullptr};         \
    return ::offbeat::abi::host_data(#global, kept); \
  }())
#endif

namespace offbeat::abi {

// Returns a handle as a number, for hashing.
template <class Handle>
[[nodiscard]] std::uintptr_t bits(Handle handle) {
  if constexpr (sizeof(Handle) == sizeof(std::uintptr_t)) {
    return reinterpret_cast<std::uintptr_t>(handle);
  } else {
    return static_cast<std::uintptr_t>(static_cast<unsigned>(handle));
  }
}

}  // namespace offbeat::abi
