// What a call that cannot be served throws; c_interface.cpp turns it into a code and a message.

#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include "paradraft_native.h"

namespace paradraft {

struct Failure {
    int32_t code;
    std::string message;
};

[[noreturn]] inline void refuse(std::string message) { throw Failure{PARADRAFT_BAD_ARGUMENT, std::move(message)}; }

}  // namespace paradraft
