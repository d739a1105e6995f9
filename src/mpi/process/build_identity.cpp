// SPDX-License-Identifier: BSD-3-Clause
#include "mpi/process/build_identity.hpp"

#include <cstddef>
#include <string>

#include "base/hash.hpp"
#include "groups/node_board.hpp"
#include "mpi/communicators/transport.hpp"
#include "node/board_shape.hpp"

namespace offbeat {
namespace {

// It is volatile so that it is read from the library's file: a test changes it in a copy of that file.
const char* volatile version = "offbeat version " OFFBEAT_VERSION;

}  // namespace

std::uint64_t build_identity(const Selection& selection) {
  // With three ranks and two stages, a change of any offset changes the text. The other numbers decide what a
  // board has and which calls use it.
  constexpr BoardShape shape{.ranks = 3, .window_bytes = std::size_t{1} << 20, .stages = 2};
  std::string text = version;
  for (const std::size_t number :
       {BoardShape::inline_bytes, BoardShape::short_bytes, BoardShape::smallest_chunk,
        static_cast<std::size_t>(BoardShape::most_ranks_without_tree), shape.bell_offset(),
        shape.broken_offset(), shape.gate_offset(), shape.stages_offset(), shape.signs_in_stage(),
        shape.round_words_in_stage(), shape.tree_lines_in_stage(), shape.steps_in_stage(),
        shape.relay_words_in_stage(), shape.windows_in_stage(), shape.total_bytes(),
        static_cast<std::size_t>(NodeBoard::most_stages), static_cast<std::size_t>(MpiTransport::tags)}) {
    text += ' ' + std::to_string(number);
  }
  return selection.hash_of_built_in(fnv1a(text));
}

}  // namespace offbeat
