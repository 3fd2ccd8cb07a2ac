/* dlsym, dlvsym and dlopen as the program sees them, for x86-64 (lookups.h).
 *
 * The linker_X are where the real functions are; at first, where those are found.
 */
#ifdef __x86_64__

        .macro begin name
        .p2align 4
        .type \name, @function
\name:
        .cfi_startproc
        endbr64
        .endm

        .macro end name
        .cfi_endproc
        .size \name, . - \name
        .endm

/* An odd number of words, which aligns the stack for a call. */
        .macro keep_arguments
        push %rdi
        .cfi_adjust_cfa_offset 8
        push %rsi
        .cfi_adjust_cfa_offset 8
        push %rdx
        .cfi_adjust_cfa_offset 8
        .endm

        .macro take_arguments
        pop %rdx
        .cfi_adjust_cfa_offset -8
        pop %rsi
        .cfi_adjust_cfa_offset -8
        pop %rdi
        .cfi_adjust_cfa_offset -8
        .endm

/* The real function's place, and how it is found. */
        .macro real name
        .text
begin find_\name
        keep_arguments
        call linker_find
        take_arguments
        jmp *linker_\name(%rip)
end find_\name
        .data
        .p2align 3
        .globl linker_\name
        .hidden linker_\name
        .type linker_\name, @object
        .size linker_\name, 8
linker_\name:
        .quad find_\name
        .text
        .endm

        .text
        real dlsym
        real dlvsym
        real dlopen

/* version: how the third argument of lookup_symbol is made. */
        .macro symbol name, version:vararg
        .globl \name
begin \name
        test %rsi, %rsi
        jz 1f
        cmpl $0, trampolines_placed(%rip)
        jne 3f
        cmpb $'M', (%rsi)
        je 2f
        cmpb $'n', (%rsi)
        jne 1f
        cmpb $'c', 1(%rsi)
        jne 1f
        cmpb $'c', 2(%rsi)
        jne 1f
        cmpb $'l', 3(%rsi)
        jne 1f
        jmp 3f
2:      cmpb $'P', 1(%rsi)
        jne 1f
        cmpb $'I', 2(%rsi)
        jne 1f
        cmpb $'_', 3(%rsi)
        jne 1f
3:      keep_arguments
        \version
        call lookup_symbol
        mov %rdx, %rcx
        take_arguments
        test %rcx, %rcx
        jz 1f
        ret
1:      jmp *linker_\name(%rip)
end \name
        .endm

        symbol dlsym, xor %edx, %edx
        symbol dlvsym

        .globl dlopen
begin dlopen
        keep_arguments
        mov 24(%rsp), %rdx      /* the caller */
        call lookup_flags
        take_arguments
        mov %eax, %esi
        jmp *linker_dlopen(%rip)
end dlopen

#endif

        .section .note.GNU-stack, "", %progbits
