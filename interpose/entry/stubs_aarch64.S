/* dlsym, dlvsym and dlopen as the program sees them, for aarch64 (lookups.h).
 *
 * The linker_X are where the real functions are; at first, where those are found.
 */
#ifdef __aarch64__

        .macro begin name
        .p2align 4
        .type \name, %function
\name:
        .cfi_startproc
        hint #34                /* bti c, which older processors take for nothing */
        .endm

        .macro end name
        .cfi_endproc
        .size \name, . - \name
        .endm

        .macro keep_arguments
        stp x29, x30, [sp, #-48]!
        .cfi_def_cfa_offset 48
        .cfi_offset x29, -48
        .cfi_offset x30, -40
        mov x29, sp
        stp x0, x1, [sp, #16]
        str x2, [sp, #32]
        .endm

        .macro take_arguments
        ldp x0, x1, [sp, #16]
        ldr x2, [sp, #32]
        ldp x29, x30, [sp], #48
        .cfi_restore x29
        .cfi_restore x30
        .cfi_def_cfa_offset 0
        .endm

        .macro go_on name
        adrp x16, linker_\name
        ldr x16, [x16, #:lo12:linker_\name]
        br x16
        .endm

/* The real function's place, and how it is found. */
        .macro real name
        .text
begin find_\name
        keep_arguments
        bl linker_find
        take_arguments
        go_on \name
end find_\name
        .data
        .p2align 3
        .globl linker_\name
        .hidden linker_\name
        .type linker_\name, %object
        .size linker_\name, 8
linker_\name:
        .xword find_\name
        .text
        .endm

        .text
        real dlsym
        real dlvsym
        real dlopen

        .macro differs at, letter
        ldrb w9, [x1, #\at]
        cmp w9, #\letter
        b.ne 1f
        .endm

/* version: how the third argument of lookup_symbol is made. */
        .macro symbol name, version:vararg
        .globl \name
begin \name
        cbz x1, 1f
        adrp x9, trampolines_placed
        ldr w9, [x9, #:lo12:trampolines_placed]
        cbnz w9, 3f
        ldrb w9, [x1]
        cmp w9, #'M'
        b.eq 2f
        differs 0, 'n'
        differs 1, 'c'
        differs 2, 'c'
        differs 3, 'l'
        b 3f
2:      differs 1, 'P'
        differs 2, 'I'
        differs 3, '_'
3:      keep_arguments
        \version
        bl lookup_symbol
        mov x9, x0
        mov x10, x1
        take_arguments
        cbz x10, 1f
        mov x0, x9
        ret
1:      go_on \name
end \name
        .endm

        symbol dlsym, mov x2, xzr
        symbol dlvsym

        .globl dlopen
begin dlopen
        keep_arguments
        mov x2, x30             /* the caller */
        bl lookup_flags
        mov w9, w0
        take_arguments
        mov w1, w9
        go_on dlopen
end dlopen

#endif

        .section .note.GNU-stack, "", %progbits
