// lockstep/comm/background_thread.h
//
// A thread of ours in the user's process: named, and deaf to signals, which are for the
// program's own threads.
#pragma once

#include <functional>
#include <thread>

namespace lockstep::comm {

/// `name`: at most 15 characters, as ps and debuggers show it.
std::thread start_background_thread(const char* name, std::function<void()> body);

}  // namespace lockstep::comm
